import sys

import torch
from common import network
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FAST = "--fast" in sys.argv
data = TensorDataset(torch.randn(20_000, 32), torch.randint(0, 8, (20_000,)))
model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def batches():
    if FAST:
        while True:
            yield from DataLoader(data, batch_size=16, shuffle=True)
    while True:
        loader = DataLoader(data, batch_size=16, shuffle=True)  # slow
        yield next(iter(loader))


for x, y in batches():
    for _ in range(20 if FAST else 1):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
