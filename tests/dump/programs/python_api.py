"""`tensight.dump` in a script: targets, a sample of each tensor, the first iteration counted from 5."""

import sys

import torch
from torch import nn

import tensight

torch.manual_seed(0)
model = nn.Sequential()
model.add_module("first", nn.Linear(4, 8))
model.add_module("act", nn.ReLU())
model.add_module("head", nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with tensight.dump(
    model,
    optimizer,
    path="dump",
    net_name="Net",
    level="module",
    targets=[model.act, "head"],
    iteration="5-6",
    initial_iteration=5,
    input_output=2,
    asynchronous="async" in sys.argv,
):
    for _ in range(3):
        loss = model(torch.ones(2, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
