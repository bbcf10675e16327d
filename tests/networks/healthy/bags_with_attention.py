"""Attention over the members of bags, normalised within each bag."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(35)
N, K = 1000, 10
x = torch.randn(N, K, 6)
key = torch.randint(0, K, (N,))
label = torch.randint(0, 2, (N,))
x[torch.arange(N), key, 0] = 4.0
x[torch.arange(N), key, 1] = label.float() * 4 - 2


class Bag(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(6, d), nn.Tanh())
        self.att = nn.Linear(d, 1)
        self.cls = nn.Linear(d, 2)

    def forward(self, x):
        h = self.enc(x)
        score = self.att(h).squeeze(-1)
        w = torch.softmax(score, dim=1)
        return self.cls((w.unsqueeze(-1) * h).sum(1))


net = Bag()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(STEPS):
    i = torch.randint(0, N, (50,))
    loss = nn.functional.cross_entropy(net(x[i]), label[i])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.4f}")
print(f"final loss={loss.item():.4f}")
