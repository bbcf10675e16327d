"""fault: betas_swapped

Adam's betas in the wrong order.
"""

import torch
from torch import nn

torch.manual_seed(9)
x = torch.randn(600, 12)
y = (x[:, 0] * x[:, 1] > 0).long()
net = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 2))
opt = torch.optim.Adam(net.parameters(), lr=3e-3, betas=(0.999, 0.9))
for step in range(200):
    i = torch.randint(0, 600, (60,))
    loss = nn.functional.cross_entropy(net(x[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
