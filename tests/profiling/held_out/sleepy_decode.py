"""A stream of recordings that come from a slow place, for a small transformer; nobody fetches ahead."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

FAST = "--fast" in sys.argv
torch.manual_seed(0)


class Stream(IterableDataset):
    def __init__(self):
        self.kept = torch.randn(64, 20, 32)

    def __iter__(self):
        number = 0
        while True:
            if not FAST:
                time.sleep(0.0015)  # the answer of a server
            yield self.kept[number % 64], number % 5
            number += 1


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.body(x).mean(1))


model = Encoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(Stream(), batch_size=32)  # slow
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
