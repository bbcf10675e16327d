"""A PyTorch training in which step 1 divides by zero, and whose last step fails when asked to."""

import sys

import torch
from torch import nn


class Scale(nn.Module):
    def forward(self, x, by):
        return x / by


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.scale = Scale()
        self.head = nn.Linear(4, 2)

    def forward(self, x, by):
        return self.head(self.scale(self.first(x), by))


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
x = torch.randn(3, 4)
for step in range(3):
    by = torch.tensor(0.0 if step == 1 else 2.0)
    loss = model(x[:, : 2 if step == 2 and "fail" in sys.argv else 4], by).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
