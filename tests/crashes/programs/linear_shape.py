import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(16, 10))
        self.head = nn.Linear(20, 5)

    def forward(self, x):
        return self.head(self.body(x))


Net()(torch.randn(4, 1, 4, 4)).sum().backward()
