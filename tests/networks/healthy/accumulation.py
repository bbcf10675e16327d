"""Gradient accumulation over four small batches, each loss divided by four, with a plateau scheduler."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
EVERY = 4
torch.manual_seed(12)
x = torch.randn(960, 12)
y = torch.sin(x[:, :4].sum(1)) + 0.1 * torch.randn(960)
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
net = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=4)
step = 0
while step < STEPS:
    total = 0.0
    optimizer.zero_grad()
    for index, (inputs, target) in enumerate(loader):
        loss = nn.functional.mse_loss(net(inputs).squeeze(1), target)
        (loss / EVERY).backward()
        total += loss.item()
        if (index + 1) % EVERY == 0:
            optimizer.step()
            optimizer.zero_grad()
            if step % 50 == 0:
                print(f"step {step} loss {loss.item():.6f}")
            step += 1
            if step == STEPS:
                break
    scheduler.step(total / len(loader))
print(f"final loss={loss.item():.6f}")
