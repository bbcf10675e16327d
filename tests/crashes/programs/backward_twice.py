import torch
from torch import nn

cell = nn.RNNCell(3, 4)
hidden = torch.zeros(2, 4)
for _ in range(3):
    hidden = cell(torch.randn(2, 3), hidden)
    loss = hidden.pow(2).sum()
    loss.backward()
