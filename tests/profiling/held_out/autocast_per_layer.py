"""A residual network whose every layer enters its own region of mixed precision and goes back."""

import sys

import torch
from torch import nn

FAST = "--fast" in sys.argv
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        if FAST:
            return x + torch.relu(self.inner(self.norm(x)))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = self.inner(self.norm(x))  # slow
        return x + torch.relu(out.float())  # slow


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inlet = nn.Linear(64, 192)
        self.blocks = nn.ModuleList(Block(192) for _ in range(12))
        self.head = nn.Linear(192, 10)

    def forward(self, x):
        x = self.inlet(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


model = Residual()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data, labels = torch.randn(2048, 64), torch.randint(0, 10, (2048,))
for number in range(100_000):
    at = number % 16 * 128
    loss = nn.functional.cross_entropy(model(data[at : at + 128]), labels[at : at + 128])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
