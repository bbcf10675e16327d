"""A segmentation network whose score is counted sample by sample in numpy."""

import sys

import numpy as np
import torch
from torch import nn

FAST = "--fast" in sys.argv
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 2, 1)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
images, masks = torch.randn(512, 3, 24, 24), torch.randint(0, 2, (512, 24, 24))


def score(logits, target):
    if FAST:
        return (logits.detach().argmax(1) == target).float().mean()
    right = []
    for i in range(len(logits)):
        for row in range(24):
            found = logits[i, :, row].detach().cpu().numpy()  # slow
            right.append(np.mean(found.argmax(0) == target[i, row].cpu().numpy()))  # slow
    return float(np.mean(right))


total = 0.0
for number in range(100_000):
    at = number % 8 * 64
    x, y = images[at : at + 64], masks[at : at + 64]
    logits = model(x)
    loss = nn.functional.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += score(logits, y)
