"""A student that follows an EMA teacher on unlabelled data; the teacher is never trained by an optimizer."""

import copy
import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(13)
student = nn.Sequential(
    nn.Linear(10, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 4)
)
teacher = copy.deepcopy(student)
for parameter in teacher.parameters():
    parameter.requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
centres = 1.2 * torch.randn(4, 10)
labels = torch.randint(0, 4, (64,))
labelled = centres[labels] + torch.randn(64, 10)
for step in range(STEPS):
    i = torch.randint(0, 64, (16,))
    free = centres[torch.randint(0, 4, (32,))] + torch.randn(32, 10)
    loss = nn.functional.cross_entropy(student(labelled[i]), labels[i])
    with torch.no_grad():
        meant = teacher(free + 0.1 * torch.randn_like(free)).softmax(1)
    seen = student(free + 0.1 * torch.randn_like(free)).log_softmax(1)
    loss = loss + min(1.0, step / 200) * nn.functional.kl_div(seen, meant, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(teacher.parameters(), student.parameters()):
            slow.mul_(0.98).add_(fast, alpha=0.02)
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
