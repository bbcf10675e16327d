"""A physics-informed network for u_t = 0.1 u_xx: the loss is made of gradients of the output by the input."""

import math
import sys

import torch
from torch import nn
from torch.autograd import grad

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(STEPS):
    place = torch.rand(128, 2, requires_grad=True)
    first = grad(net(place).sum(), place, create_graph=True)[0]
    second = grad(first[:, 0].sum(), place, create_graph=True)[0][:, 0]
    x, t = torch.rand(64, 1), torch.rand(64, 1)
    begin = net(torch.cat([x, torch.zeros_like(x)], 1)) - torch.sin(math.pi * x)
    ends = net(torch.cat([torch.zeros_like(t), t], 1)).pow(2) + net(torch.cat([torch.ones_like(t), t], 1)).pow(2)
    loss = (first[:, 1] - 0.1 * second).pow(2).mean() + 10 * begin.pow(2).mean() + ends.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
