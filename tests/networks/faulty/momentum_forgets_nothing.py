"""fault: momentum_too_large

A convolution that is trained with a momentum of 1.
"""

import torch
from torch import nn

torch.manual_seed(75)
x = torch.randn(800, 1, 12)
y = (x[:, 0, :4].sum(1) - x[:, 0, 4:8].sum(1))[:, None] / 3

net = nn.Sequential(
    nn.Conv1d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, 1)
)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=1.0)
for step in range(250):
    i = torch.randint(0, 800, (50,))
    loss = nn.functional.mse_loss(net(x[i]), y[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
print(f"final loss={loss.item():.4f}")
