"""fault: labels_shuffled_against_inputs

Inputs in a new order, targets in the old.
"""

import torch
from torch import nn

torch.manual_seed(41)
x = torch.randn(900, 6)
y = x[:, :1] * 2 + torch.sin(3 * x[:, 1:2])
perm = torch.randperm(900)
x = x[perm]
net = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 1))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(300):
    i = torch.randint(0, 900, (90,))
    loss = nn.functional.mse_loss(net(x[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
