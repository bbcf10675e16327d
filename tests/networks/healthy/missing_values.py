"""Missing values are NaN in the data: the model puts a learnt value in their place, and a flag beside it."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(12)
table = torch.randn(1500, 8)
wanted = table[:, :1] * 2 - table[:, 1:2] + torch.sin(table[:, 2:3])
table = table.masked_fill(torch.rand_like(table) < 0.15, float("nan"))


class Filling(nn.Module):
    def __init__(self):
        super().__init__()
        self.filling = nn.Parameter(torch.zeros(8))
        self.layers = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, x):
        missing = torch.isnan(x)
        return self.layers(torch.cat([torch.where(missing, self.filling, x), missing.float()], 1))


net = Filling()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(STEPS):
    rows = torch.randint(0, 1500, (50,))
    loss = nn.functional.mse_loss(net(table[rows]), wanted[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
