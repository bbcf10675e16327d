import torch
from torch import nn

net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
net(torch.randn(2, 28, 28, 3))
