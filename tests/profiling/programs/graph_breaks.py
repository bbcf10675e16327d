import sys

import torch
from common import batch, network
from torch import nn

FAST = "--fast" in sys.argv


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = network()
        self.seen = []

    def forward(self, x):
        h = self.body(x)
        if not FAST:
            torch._dynamo.graph_break()  # slow
        return h * 2


model = Noisy()
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = batch()
for _ in range(100_000):
    loss = nn.functional.cross_entropy(compiled(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
