"""A deep autoregressive network whose gradient norms are read one by one for the log."""

import sys

import torch
from torch import nn

FAST = "--fast" in sys.argv
torch.manual_seed(0)
layers = [layer for _ in range(24) for layer in (nn.Linear(48, 48), nn.LayerNorm(48), nn.Tanh())]
model = nn.Sequential(*layers, nn.Linear(48, 48))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
log = []
for step in range(100_000):
    x = torch.randn(64, 48)
    loss = nn.functional.mse_loss(model(x), x.roll(1, 1))
    loss.backward()
    if not FAST or step % 500 == 0:
        for name, parameter in model.named_parameters():
            slope = parameter.grad
            log.append((name, slope.norm().item(), slope.abs().max().item(), parameter.std().item()))  # slow
    optimizer.step()
    optimizer.zero_grad()
