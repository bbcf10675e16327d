import torch
from torch import nn

net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1))
net(torch.randn(4, 3, 16, 16))
