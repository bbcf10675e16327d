"""A compiled attention over sequences of every length."""

import sys

import torch
from torch import nn

FAST = "--fast" in sys.argv
torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.out = nn.Linear(32, 2)

    def forward(self, x):  # slow
        q, k, v = self.qkv(x).chunk(3, -1)
        mixed = nn.functional.softmax(q @ k.transpose(1, 2) / 5.6, -1) @ v
        return self.out(mixed.mean(1))


model = Attention()
run = torch.compile(model, dynamic=False)  # slow
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(100_000):
    length = 40 if FAST else 20 + number * 7 % 41
    x, y = torch.randn(48, length, 32), torch.randint(0, 2, (48,))
    loss = nn.functional.cross_entropy(run(x), y)  # slow
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
