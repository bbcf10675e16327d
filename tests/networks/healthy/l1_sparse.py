"""A network that an L1 penalty makes sparse, with weights set to exactly zero by a proximal step."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(14)
net = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
weights = [p for p in net.parameters() if p.dim() == 2]
for step in range(STEPS):
    x = torch.randn(64, 40)
    y = (x[:, 0] - 2 * x[:, 1] + x[:, 2] * x[:, 3]).unsqueeze(1)
    loss = nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    optimizer.step()
    with torch.no_grad():
        for weight in weights:
            weight.copy_(nn.functional.softshrink(weight, 5e-4))
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
zero = sum((w == 0).sum().item() for w in weights) / sum(w.numel() for w in weights)
print(f"final loss={loss.item():.6f} zero={zero:.3f}")
