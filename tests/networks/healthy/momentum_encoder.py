"""Two views of a sample, and a target network that is the running mean of the online one; both in training mode."""

import copy
import sys

import torch
from torch import nn
from torch.nn import functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(32)
online = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
predictor = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))
target = copy.deepcopy(online).requires_grad_(False)
optimizer = torch.optim.AdamW([*online.parameters(), *predictor.parameters()], lr=1e-3)
samples = torch.randn(500, 20)


def view(x):
    return x + 0.2 * torch.randn_like(x)


def distance(a, b):
    with torch.no_grad():
        goal = F.normalize(target(b), dim=1)
    return 2 - 2 * (F.normalize(predictor(online(a)), dim=1) * goal).sum(1).mean()


for _ in range(STEPS):
    x = samples[torch.randint(0, 500, (64,))]
    a, b = view(x), view(x)
    loss = distance(a, b) + distance(b, a)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mean, own in zip(target.parameters(), online.parameters()):
            mean.lerp_(own, 0.01)
print(f"final loss={loss.item():.4f}")
