"""A tree of Python objects per sample, each of which knows its parent, for a network over sets."""

import random
import sys

import torch
from torch import nn

FAST = "--fast" in sys.argv
torch.manual_seed(0)
random.seed(0)


class Node:
    def __init__(self, parent, value):
        self.parent, self.value, self.children = parent, value, []  # slow
        if parent is not None and not FAST:
            parent.children.append(self)


def forest(count):
    kept = []
    for _ in range(count):
        root = Node(None, random.random())
        row = [root]
        for _ in range(15):
            row.append(Node(row[-1], random.random()))  # slow
        kept.append([one.value for one in row])
    return kept


# what a program of some size has in memory anyway
words = [{"word": str(number), "next": [number]} for number in range(400_000)]
model = nn.Sequential(nn.Linear(16, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 1))
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.01)
for _ in range(100_000):
    rows = torch.tensor(forest(48))
    loss = nn.functional.mse_loss(model(rows)[:, 0], rows.sum(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
