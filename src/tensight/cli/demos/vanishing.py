"""The loss does not fall: a deep stack of sigmoids leaves nothing of the gradient."""

import torch
from torch import nn

torch.manual_seed(0)
layers = []
for depth in range(12):
    layers += [nn.Linear(8 if depth == 0 else 24, 24), nn.Sigmoid()]
model = nn.Sequential(*layers, nn.Linear(24, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
points = torch.randn(1024, 8)
labels = (points[:, 0] * points[:, 1] > 0).long()
for step in range(150):
    rows = torch.randint(0, 1024, (64,))
    loss = nn.functional.cross_entropy(model(points[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(f"step {step} loss {loss.item():.4f}")
