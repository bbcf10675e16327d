import sys
import time

import torch
from common import mended, network
from torch import nn
from torch.utils.data import DataLoader, Dataset

FAST, AHEAD = "--fast" in sys.argv, int(mended("prefetch", 0)) or None


class Files(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        if not FAST and index % 80 == 0:
            time.sleep(0.15)  # slow
        return torch.zeros(32), index % 8


model = network(128)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
workers = {"num_workers": 2, "prefetch_factor": AHEAD, "persistent_workers": True} if AHEAD else {}
for x, y in DataLoader(Files(), batch_size=16, **workers):
    for _ in range(10):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
