import sys

import torch
from common import mended, network
from torch import nn
from torch.utils.data import DataLoader, Dataset

FAST, WORKERS = "--fast" in sys.argv, int(mended("workers", 0))
TABLE = [0.5] * 4000


class Signals(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        if FAST:
            total = 2000.0
        else:
            total = sum(value * 2 - 0.5 for value in TABLE)  # slow
        return torch.full((32,), total / 4000), index % 8


model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(Signals(), batch_size=16, num_workers=WORKERS, persistent_workers=WORKERS > 0):
    for _ in range(20 if FAST else 1):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
