"""Prints the bits of what a training has learnt."""

import hashlib
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(512, 8), torch.randn(512, 1))
model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
losses = []
for x, y in DataLoader(data, batch_size=16, shuffle=True):
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
print(
    "bits", hashlib.sha256(weights.numpy().tobytes() + repr(losses).encode()).hexdigest(), len(losses), file=sys.stderr
)
