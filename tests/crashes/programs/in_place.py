import torch
from torch import nn

layer = nn.Linear(3, 3)
out = torch.sigmoid(layer(torch.ones(2, 3)))
out += 1
out.sum().backward()
