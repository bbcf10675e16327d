"""A residual network with zero-initialised last norms, a learning rate that warms up from zero and a cosine decay."""

import math
import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(1)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        nn.init.zeros_(self.norm2.weight)

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(x + self.norm2(self.conv2(y)))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(Block(12), Block(12))
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


means = torch.randn(5, 3, 1, 1)
shapes = torch.randn(5, 3, 6, 6)
y = torch.randint(0, 5, (256,))
x = means[y] * 0.2 + shapes[y] + torch.randn(256, 3, 6, 6)

net = ResNet()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
warm = max(1, STEPS // 10)


def factor(step):
    if step < warm:
        return step / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / (STEPS - warm)))


scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
for step in range(STEPS):
    i = torch.randint(0, 256, (24,))
    loss = nn.functional.cross_entropy(net(x[i]), y[i], label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
