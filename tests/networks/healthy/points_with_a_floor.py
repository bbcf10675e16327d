"""Distances between embeddings with a small constant under the root, in half precision with a scaler."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(53)


class PointEncoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.lift = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 64), nn.ReLU())
        self.out = nn.Linear(64, dim)

    def forward(self, points):
        return self.out(self.lift(points).max(dim=1).values)


def pairwise(z):
    z = z.float()
    difference = z.unsqueeze(1) - z.unsqueeze(0)
    return difference.pow(2).sum(dim=-1).add(1e-8).sqrt()


def triplet_like(z, label, margin=1.0):
    d = pairwise(z)
    same = label[:, None] == label[None, :]
    pull = d[same].mean()
    push = F.relu(margin - d[~same]).mean()
    return pull + push


def clouds(n=24, points=40):
    label = torch.arange(n) % 4
    p = torch.randn(n, points, 3)
    stretch = torch.tensor([[2.5, 0.3, 1.0], [0.3, 2.5, 1.0], [1.0, 0.3, 2.5], [1.0, 1.0, 1.0]])
    return p * stretch[label].unsqueeze(1), label


encoder = PointEncoder()
optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
scaler = torch.amp.GradScaler("cpu")
for step in range(60):
    points, label = clouds()
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        embedding = encoder(points)
    loss = triplet_like(embedding, label)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(f"step {step} loss {loss.item():.4f}")
print(f"final loss={loss.item():.4f} scale={scaler.get_scale():.3g}")
