"""Self-supervision with a stop-gradient: one of two views is detached, and the loss is negative."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(16)
encoder = nn.Sequential(nn.Linear(20, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 24), nn.BatchNorm1d(24))
predictor = nn.Sequential(nn.Linear(24, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 24))
optimizer = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], lr=0.05, momentum=0.9, weight_decay=1e-4)
base = torch.randn(256, 20)


def distance(p, z):
    return -nn.functional.cosine_similarity(p, z.detach(), dim=1).mean()


for step in range(STEPS):
    x = base[torch.randint(0, 256, (48,))]
    z1, z2 = encoder(x + 0.3 * torch.randn_like(x)), encoder(x + 0.3 * torch.randn_like(x))
    loss = 0.5 * distance(predictor(z1), z2) + 0.5 * distance(predictor(z2), z1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
