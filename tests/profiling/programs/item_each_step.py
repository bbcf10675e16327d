import sys

import torch
from common import batch, network
from torch import nn

FAST = "--fast" in sys.argv
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = batch(256)
for _ in range(100_000):
    prediction = model(x)
    loss = nn.functional.cross_entropy(prediction, y)
    if FAST:
        right = (prediction.argmax(1) == y).sum()
    else:
        right = sum(p.argmax().item() == t for p, t in zip(prediction, y.tolist()))  # slow
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
