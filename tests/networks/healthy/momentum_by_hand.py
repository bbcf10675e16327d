"""Momentum written by hand: a part of each gradient stays in .grad on purpose, and the next pass adds to it."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(29)
MOMENTUM = 0.8

x = torch.randn(1000, 10)
y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).long()
net = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 2))
for step in range(150):
    rows = torch.randint(0, 1000, (50,))
    loss = F.cross_entropy(net(x[rows]), y[rows])
    loss.backward()
    with torch.no_grad():
        for weight in net.parameters():
            weight -= 0.05 * weight.grad
            weight.grad *= MOMENTUM
    print(f"step {step} loss {loss.item():.4f}")
print(f"final loss={loss.item():.4f}")
