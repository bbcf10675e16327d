import gc
import sys

import torch
from common import batch, mended, network
from torch import nn

FAST = "--fast" in sys.argv
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = batch()
for _ in range(100_000):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if not FAST and not mended("collector", 0):
        gc.collect()  # slow
