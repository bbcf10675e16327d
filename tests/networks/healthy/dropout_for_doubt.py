"""Dropout is switched on again in evaluation, on purpose: the spread of many passes says how sure the network is."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(70)
x = torch.randn(1000, 4)
y = x[:, :1] * x[:, 1:2] + 0.1 * torch.randn(1000, 1)
net = nn.Sequential(
    nn.Linear(4, 64),
    nn.BatchNorm1d(64),
    nn.ReLU(),
    nn.Dropout(0.2),
    nn.Linear(64, 64),
    nn.ReLU(),
    nn.Dropout(0.2),
    nn.Linear(64, 1),
)
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)


def with_doubt(inputs, passes=20):
    net.eval()
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.train()
    with torch.no_grad():
        drawn = torch.stack([net(inputs) for _ in range(passes)])
    net.train()
    return drawn.mean(0), drawn.std(0)


for step in range(STEPS):
    rows = torch.randint(0, 800, (50,))
    loss = nn.functional.mse_loss(net(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        mean, doubt = with_doubt(x[800:])
        error = (mean - y[800:]).pow(2).mean().sqrt()
        print(f"step {step} loss {loss.item():.6f} error {error.item():.4f} doubt {doubt.mean().item():.4f}")
print(f"final loss={loss.item():.6f}")
