"""fault: outlier_batch

One sample three thousand times too large.
"""

import torch
from torch import nn

torch.manual_seed(47)
x = torch.randn(800, 8)
y = x[:, :1] * 2
x[412] *= 3000
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.02)
for step in range(80):
    i = torch.arange((step * 10) % 800, (step * 10) % 800 + 10)
    loss = nn.functional.mse_loss(net(x[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
