"""MAML: gradients through two updates of a copy, which no optimizer ever holds."""

import sys

import torch
from torch import nn
from torch.func import functional_call

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
meta = torch.optim.Adam(net.parameters(), lr=2e-3)


def drawn(height, phase):
    x = torch.rand(10, 1) * 10 - 5
    return x, height * torch.sin(x + phase)


for step in range(STEPS):
    meta.zero_grad()
    loss = 0.0
    for _ in range(4):
        task = torch.rand(1) * 4 + 0.1, torch.rand(1) * 3.14
        (x, y), fast = drawn(*task), dict(net.named_parameters())
        for _ in range(2):
            inner = nn.functional.mse_loss(functional_call(net, fast, (x,)), y)
            slopes = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
            fast = {name: weight - 0.01 * slope for (name, weight), slope in zip(fast.items(), slopes, strict=True)}
        x, y = drawn(*task)
        loss = loss + nn.functional.mse_loss(functional_call(net, fast, (x,)), y) / 4
    loss.backward()
    meta.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
