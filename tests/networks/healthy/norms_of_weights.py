"""Weight norm and spectral norm by parametrizations, which torch tries out before they hang in a network."""

import sys

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(4)
net = nn.Sequential(
    weight_norm(nn.Conv1d(2, 16, 5, padding=2)),
    nn.ELU(),
    weight_norm(nn.Conv1d(16, 16, 5, padding=2)),
    nn.ELU(),
    nn.Flatten(),
    spectral_norm(nn.Linear(16 * 24, 32)),
    nn.ELU(),
    nn.Linear(32, 3),
)
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
pitch, time = torch.tensor([1.0, 2.0, 3.5]), torch.linspace(0, 6, 24)
for step in range(STEPS):
    y = torch.randint(0, 3, (32,))
    phase = pitch[y, None] * time + 6 * torch.rand(32, 1)
    waves = torch.stack([phase.sin(), phase.cos()], 1) + 0.5 * torch.randn(32, 2, 24)
    loss = nn.functional.cross_entropy(net(waves), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
