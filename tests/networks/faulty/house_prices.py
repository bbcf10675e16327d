"""fault: target_not_normalised

Regression on targets of a quarter of a million.
"""

import torch
from torch import nn

torch.manual_seed(37)
x = torch.randn(800, 8)
y = 250000 + 90000 * x[:, :1] + 20000 * torch.randn(800, 1)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(200):
    i = torch.randint(0, 800, (64,))
    loss = nn.functional.mse_loss(net(x[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
