"""Learns distances between points; the loss turns NaN after a while."""

import torch
from torch import nn

torch.manual_seed(0)
points = torch.randn(512, 8)
others = torch.randn(512, 8)
others[300] = points[300]  # a pair that is equal

net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(64):
    rows = torch.arange(16 * step, 16 * step + 16) % 512
    gap = net(points[rows]) - net(others[rows])
    distance = torch.sqrt((gap**2).sum(dim=1))
    loss = (distance - (points[rows] - others[rows]).norm(dim=1)).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
