"""fault: clip_too_small

A limit far below every gradient norm.
"""

import torch
from torch import nn

torch.manual_seed(5)
x = torch.randn(600, 12)
y = (x[:, :3].sum(1) > 0).long()
net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(150):
    i = torch.randint(0, 600, (60,))
    loss = nn.functional.cross_entropy(net(x[i]), y[i])
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1e-5)
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
