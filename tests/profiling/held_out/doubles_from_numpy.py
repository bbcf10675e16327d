"""An autoencoder of numpy's numbers, made to fit them."""

import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FAST = "--fast" in sys.argv
torch.manual_seed(0)
table = np.random.default_rng(0).normal(size=(4096, 256))
if FAST:
    table = table.astype(np.float32)
rows = torch.from_numpy(table)  # slow
model = nn.Sequential(
    nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 32), nn.GELU(), nn.Linear(32, 512), nn.GELU(), nn.Linear(512, 256)
).to(rows.dtype)  # slow
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(1000):
    for (x,) in DataLoader(TensorDataset(rows), batch_size=512, shuffle=True):  # slow
        loss = nn.functional.mse_loss(model(x), x)  # slow
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
