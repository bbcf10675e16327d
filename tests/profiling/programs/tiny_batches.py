import sys

import torch
from common import mended, network
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FAST = "--fast" in sys.argv
data = TensorDataset(torch.randn(8192, 32), torch.randint(0, 8, (8192,)))
model = torch.compile(network()) if mended("compile", 0) else network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=64 if FAST else int(2 * mended("batch", 1)))  # slow
for _ in range(100):
    for x, y in loader:
        for _ in range(20 if FAST else 1):
            loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
