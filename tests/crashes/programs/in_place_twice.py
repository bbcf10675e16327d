import torch
from torch import nn

layer = nn.Linear(3, 3)
first = torch.exp(layer(torch.ones(2, 3)))
first.mul_(2)
second = first.exp()
second.mul_(3)
(first.sum() + second.sum()).backward()
