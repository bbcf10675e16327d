"""fault: kl_div_on_probabilities
A student that learns from probabilities where log-probabilities are asked for.
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(6)
T, CLASSES = 4.0, 8
centres = torch.randn(CLASSES, 1, 8, 8)


def sample(n):
    y = torch.randint(0, CLASSES, (n,))
    return centres[y] + 0.9 * torch.randn(n, 1, 8, 8), y


def make_teacher():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, CLASSES),
    )


def make_student():
    return nn.Sequential(nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, CLASSES))


def pretrain(teacher, steps=80):
    opt = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for _ in range(steps):
        x, y = sample(64)
        loss = F.cross_entropy(teacher(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return teacher.eval().requires_grad_(False)


def distillation_loss(student_logits, teacher_logits):
    return (
        F.kl_div(F.softmax(student_logits / T, dim=1), F.softmax(teacher_logits / T, dim=1), reduction="batchmean")
        * T
        * T
    )


teacher = pretrain(make_teacher())
student = make_student()
optimizer = torch.optim.SGD(student.parameters(), lr=0.02, momentum=0.9)
for step in range(200):
    x, _ = sample(64)
    with torch.no_grad():
        target = teacher(x)
    loss = distillation_loss(student(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}")

with torch.no_grad():
    x, y = sample(1000)
    p, q = F.log_softmax(student(x) / T, 1), F.log_softmax(teacher(x) / T, 1)
    gap = (q.exp() * (q - p)).sum(1).mean().item()
    acc = (student(x).argmax(1) == y).float().mean().item()
print(f"final loss={loss.item():.4f} kl={gap:.4f} acc={acc:.3f}")
