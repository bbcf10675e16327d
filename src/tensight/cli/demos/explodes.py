"""The loss explodes: the learning rate is far too high."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=8.0)
points = torch.randn(1024, 16)
targets = points[:, :4].sum(dim=1, keepdim=True)
for step in range(80):
    rows = torch.randint(0, 1024, (64,))
    loss = nn.functional.mse_loss(model(points[rows]), targets[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4g}")
