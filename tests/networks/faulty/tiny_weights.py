"""fault: tiny_init

Weights that start at 1e-5.
"""

import torch
from torch import nn

torch.manual_seed(51)
x = torch.randn(600, 12)
y = (x[:, 0] * x[:, 1] > 0).long()
net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
for m in net:
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, std=1e-5)
        nn.init.zeros_(m.bias)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(150):
    i = torch.randint(0, 600, (60,))
    loss = nn.functional.cross_entropy(net(x[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
