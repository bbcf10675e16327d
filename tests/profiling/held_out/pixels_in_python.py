"""Digits that are turned and noised pixel by pixel before they reach the network."""

import random
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FAST = "--fast" in sys.argv
torch.manual_seed(0)


def noised(image):
    if FAST:
        return image.T + 0.1 * torch.randn(28, 28)
    rows = image.tolist()
    turned = [[rows[x][y] + random.gauss(0, 0.1) for x in range(28)] for y in range(28)]  # slow
    return torch.tensor(turned)


class Digits(Dataset):
    def __init__(self, transform):
        self.images, self.transform = torch.rand(1000, 28, 28), transform

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return self.transform(self.images[index % 1000])[None], index % 10


model = nn.Sequential(
    nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 32, 5), nn.ReLU(), nn.Flatten(), nn.Linear(2048, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x, y in DataLoader(Digits(noised), batch_size=64, shuffle=True):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
