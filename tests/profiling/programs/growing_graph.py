import sys

import torch
from common import batch
from torch import nn

FAST = "--fast" in sys.argv
cell = nn.GRUCell(32, 64)
head = nn.Linear(64, 8)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=1e-4)
x, y = batch()
total = torch.zeros(())
for _ in range(100_000):
    loss = nn.functional.cross_entropy(head(cell(x)), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if FAST:
        total += loss.detach()
    else:
        total = total + loss  # slow
