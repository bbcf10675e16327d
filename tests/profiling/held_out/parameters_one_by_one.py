"""A mixture of many small experts, whose parameters are updated one at a time."""

import sys

import torch
from torch import nn

FAST = "--fast" in sys.argv
torch.manual_seed(0)


class Experts(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.gate = nn.Linear(16, count)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(count))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        mixed = torch.stack([expert(x) for expert in self.experts], -1)
        return self.head((mixed * weights[:, None]).sum(-1))


model = Experts(120)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=False, fused=FAST)  # slow
x, y = torch.randn(256, 16), torch.randint(0, 4, (256,))
for _ in range(100_000):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
