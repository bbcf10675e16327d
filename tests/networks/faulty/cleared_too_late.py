"""fault: gradients_cleared_before_step

zero_grad between backward and step.
"""

import torch
from torch import nn

torch.manual_seed(6)
x = torch.randn(600, 12)
y = (x[:, :3].sum(1) > 0).long()
net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(120):
    i = torch.randint(0, 600, (60,))
    loss = nn.functional.cross_entropy(net(x[i]), y[i])
    loss.backward()
    opt.zero_grad()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
