"""Many small tasks, each an epoch of two batches with a loader of its own."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FAST = "--fast" in sys.argv
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv1d(4, 32, 5, padding=2),
    nn.ReLU(),
    nn.Conv1d(32, 32, 5, padding=2),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(1024, 3),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
task = TensorDataset(torch.randn(128, 4, 32), torch.randint(0, 3, (128,)))


def epoch(loader):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


kept = DataLoader(task, batch_size=64, shuffle=True)
for _ in range(50_000):
    if FAST:
        epoch(kept)
    else:
        epoch(DataLoader(task, batch_size=64, shuffle=True, num_workers=2))  # slow
