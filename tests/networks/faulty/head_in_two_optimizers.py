"""fault: parameters_in_two_optimizers

A head that two optimizers update.
"""

import torch
from torch import nn

torch.manual_seed(8)
x = torch.randn(600, 12)
y = (x[:, :3].sum(1) > 0).long()
body = nn.Sequential(nn.Linear(12, 32), nn.ReLU())
head = nn.Linear(32, 2)
net = nn.Sequential(body, head)
opt_b = torch.optim.Adam(net.parameters(), lr=3e-3)
opt_h = torch.optim.Adam(head.parameters(), lr=3e-3)
for step in range(150):
    i = torch.randint(0, 600, (60,))
    loss = nn.functional.cross_entropy(net(x[i]), y[i])
    opt_b.zero_grad()
    opt_h.zero_grad()
    loss.backward()
    opt_b.step()
    opt_h.step()
    print(f"step {step} loss {loss.item():.4f}")
