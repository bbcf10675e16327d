"""A narrow student follows a pretrained teacher with dropout and batch norm, which was switched to evaluation."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(31)
centres = 1.5 * torch.randn(4, 12)


def batch(n):
    y = torch.randint(0, 4, (n,))
    return centres[y] + torch.randn(n, 12), y


def network(width, dropout):
    return nn.Sequential(
        nn.Linear(12, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 4)
    )


def step(net, optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


teacher = network(64, 0.4)
optimizer = torch.optim.Adam(teacher.parameters(), lr=3e-3)
for _ in range(STEPS // 3):
    x, y = batch(64)
    loss = step(teacher, optimizer, F.cross_entropy(teacher(x), y))
state = teacher.state_dict()

teacher = network(64, 0.4)
teacher.load_state_dict(state)
teacher.requires_grad_(False).eval()
student = network(12, 0.0)
optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
for _ in range(STEPS - STEPS // 3):
    x, _ = batch(64)
    with torch.no_grad():
        soft = F.softmax(teacher(x) / 2, dim=1)
    loss = step(student, optimizer, F.kl_div(F.log_softmax(student(x) / 2, dim=1), soft, reduction="batchmean"))
print(f"final loss={loss:.4f}")
