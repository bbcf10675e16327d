import torch
from torch import nn


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        x = torch.relu(self.linear(x))


net = nn.Sequential(nn.Linear(4, 8), Branch(), nn.Linear(8, 1))
net(torch.randn(4, 4))
