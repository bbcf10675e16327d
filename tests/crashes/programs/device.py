import torch
from torch import nn

net = nn.Linear(4, 2, device="meta")
x = torch.ones(3, 4)
net(x)
