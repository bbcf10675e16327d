import sys

import torch
from common import batch, mended
from torch import nn

FAST = "--fast" in sys.argv
model = nn.Sequential(nn.Linear(32, 64), *(nn.Linear(64, 64) for _ in range(30)), nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=FAST or bool(mended("fused", 0)))  # slow
x, y = batch(16)
for _ in range(100_000):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
