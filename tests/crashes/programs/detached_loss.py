import torch
from torch import nn

net = nn.Linear(3, 1)
loss = torch.tensor(net(torch.ones(2, 3)).sum().item())
loss.backward()
