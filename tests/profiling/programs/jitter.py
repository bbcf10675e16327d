import sys
import time

import torch
from common import mended, network
from torch import nn
from torch.utils.data import DataLoader, Dataset

FAST, WORKERS = "--fast" in sys.argv, int(mended("workers", 0))


class Files(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        if not FAST and index % 80 == 0:
            time.sleep(0.15)  # slow
        return torch.zeros(32), index % 8


model = network(128)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(Files(), batch_size=16, num_workers=WORKERS, persistent_workers=WORKERS > 0):
    for _ in range(10):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
