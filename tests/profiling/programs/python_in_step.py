import sys

import torch
from common import batch, network
from torch import nn

FAST = "--fast" in sys.argv
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = batch()
log = []
for step in range(100_000):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if not FAST:
        log.append(sum(number * number for number in range(60_000)) + step)  # slow
