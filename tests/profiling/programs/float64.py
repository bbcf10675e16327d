import sys

import numpy as np
import torch
from common import network
from torch import nn

FAST = "--fast" in sys.argv
features = np.random.default_rng(0).normal(size=(256, 32))
x, y = torch.from_numpy(features), torch.randint(0, 8, (256,))
if FAST:
    x = x.float()
    model = network(256)
else:
    model = network(256).double()  # slow
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100_000):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
