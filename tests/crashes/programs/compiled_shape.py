import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 24)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        return self.head(hidden)


net = torch.compile(Net(), backend="eager")
net(torch.randn(16, 6))
