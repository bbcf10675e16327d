"""Regression with a step that is far too long."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
x = torch.randn(1024, 16)
y = x[:, :1] * 2 - x[:, 1:2] + 0.1 * torch.randn(1024, 1)
net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=2.0, momentum=0.9)
for step in range(120):
    rows = torch.randint(0, 1024, (64,))
    loss = F.mse_loss(net(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
