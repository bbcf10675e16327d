"""A classifier whose first layer starts far below zero."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
x = torch.randn(2048, 12)
y = (x[:, :3].sum(dim=1) > 0).long()
net = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 2))
nn.init.constant_(net[0].bias, -30.0)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(200):
    rows = torch.randint(0, 2048, (64,))
    loss = F.cross_entropy(net(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
