import sys

import torch
from common import batch
from torch import nn

FAST = "--fast" in sys.argv


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(256, 256)

    def forward(self, x):
        if FAST:
            return torch.relu(self.inner(x)) + x
        h = torch.relu(self.inner(x).to(torch.bfloat16)).to(torch.float32)  # slow
        return h + x


model = nn.Sequential(nn.Linear(32, 256), *(Block() for _ in range(6)), nn.Linear(256, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = batch(256)
for _ in range(100_000):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
