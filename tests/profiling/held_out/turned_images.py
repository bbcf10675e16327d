"""Image blocks that turn their layout to and fro for a norm over channels."""

import sys

import torch
from torch import nn

FAST = "--fast" in sys.argv
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depth = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.GroupNorm(1, width) if FAST else nn.LayerNorm(width)
        self.point = nn.Conv2d(width, width, 1)

    def forward(self, x):
        out = self.depth(x)
        if FAST:
            out = self.norm(out)
        else:
            out = out.permute(0, 2, 3, 1).contiguous()  # slow
            out = self.norm(out).permute(0, 3, 1, 2).contiguous()  # slow
        return x + self.point(torch.relu(out))


model = nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), *(Block(24) for _ in range(4)), nn.Flatten(), nn.LazyLinear(10))
images, labels = torch.randn(256, 3, 32, 32), torch.randint(0, 10, (256,))
model(images[:2])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(100_000):
    at = step % 8 * 32
    loss = nn.functional.cross_entropy(model(images[at : at + 32]), labels[at : at + 32])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
