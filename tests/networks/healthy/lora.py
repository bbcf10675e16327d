"""Low-rank adapters on a frozen network: one half of each adapter starts at zero."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(15)


class Adapted(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + 2 * self.up(self.down(x))


old = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU(), nn.Linear(48, 5))
net = nn.Sequential(Adapted(old[0]), nn.GELU(), Adapted(old[2]), nn.GELU(), Adapted(old[4]))
optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=5e-3)
centres = torch.randn(5, 16)
for step in range(STEPS):
    y = torch.randint(0, 5, (32,))
    loss = nn.functional.cross_entropy(net(centres[y] + 0.7 * torch.randn(32, 16)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
