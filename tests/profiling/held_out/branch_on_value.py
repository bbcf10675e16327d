"""A compiled mixer that looks at numbers on the way."""

import sys

import torch
from torch import nn

FAST = "--fast" in sys.argv
torch.manual_seed(0)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inlet = nn.Linear(32, 64)
        self.blocks = nn.ModuleList(nn.Linear(64, 64) for _ in range(6))
        self.head = nn.Linear(64, 8)

    def forward(self, x):
        x = self.inlet(x)
        for block in self.blocks:
            x = torch.nn.functional.gelu(block(x)) + x
            if not FAST and x.abs().max().item() > 1e4:  # slow
                x = x / 2
        return self.head(x)


model = Mixer()
run = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x, y = torch.randn(128, 32), torch.randint(0, 8, (128,))
for _ in range(100_000):
    loss = nn.functional.cross_entropy(run(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
