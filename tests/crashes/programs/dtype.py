import numpy as np
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 2))
x = torch.from_numpy(np.ones((3, 4)))
net(x)
