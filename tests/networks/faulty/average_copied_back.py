"""fault: weights_overwritten

A moving average that overwrites the weights.
"""

import copy

import torch
from torch import nn

torch.manual_seed(12)
x = torch.randn(600, 12)
y = x[:, :1] * 2 - x[:, 1:2]
net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
ema = copy.deepcopy(net)
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(150):
    i = torch.randint(0, 600, (60,))
    loss = nn.functional.mse_loss(net(x[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for p, q in zip(net.parameters(), ema.parameters()):
            p.mul_(0.001).add_(q, alpha=0.999)
    print(f"step {step} loss {loss.item():.4f}")
