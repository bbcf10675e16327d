import sys

import torch
from torch import nn

FAST = "--fast" in sys.argv


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(16, 16, 1, groups=16)

    def forward(self, x):
        if FAST:
            return self.conv(x)
        return self.conv(x.permute(0, 3, 1, 2).contiguous()).permute(0, 2, 3, 1).contiguous()  # slow


torch.manual_seed(0)
model = nn.Sequential(*(Block() for _ in range(6)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(8, 16, 32, 32) if FAST else torch.randn(8, 32, 32, 16)
for _ in range(100_000):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
