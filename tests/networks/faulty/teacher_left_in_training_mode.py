"""fault: frozen_network_in_training_mode

A loaded, frozen teacher is never switched to evaluation: its dropout and batch norm go on.
"""

import io

import torch
import torch.nn.functional as F
from torch import nn


def shapes(n, brightness=1.0):
    label = torch.randint(0, 4, (n,))
    x = 0.3 * torch.randn(n, 1, 12, 12)
    for k in range(n):
        if label[k] == 0:
            x[k, 0, 3:9, 5:7] += 1
        elif label[k] == 1:
            x[k, 0, 5:7, 3:9] += 1
        elif label[k] == 2:
            x[k, 0, 3:9, 3:9] += 0.6
        else:
            x[k, 0, ::3, ::3] += 1.2
    return brightness * x, label


def convnet(width, dropout):
    return nn.Sequential(
        nn.Conv2d(1, width, 3),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, stride=2),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(2 * width * 16, 4),
    )


def pretrain(path, steps=80):
    teacher = convnet(16, dropout=0.5)
    opt = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for step in range(steps):
        x, y = shapes(64)
        loss = F.cross_entropy(teacher(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.4f}")
    torch.save(teacher.state_dict(), path)


def load_teacher(path):
    teacher = convnet(16, dropout=0.5)
    teacher.load_state_dict(torch.load(path))
    for p in teacher.parameters():
        p.requires_grad = False
    return teacher


def distil(student, teacher, first, steps=120, temperature=2.0):
    opt = torch.optim.Adam(student.parameters(), lr=2e-3)
    for step in range(first, first + steps):
        x, _ = shapes(64, brightness=0.6)
        with torch.no_grad():
            soft = F.softmax(teacher(x) / temperature, dim=1)
        out = student(x)
        loss = F.kl_div(F.log_softmax(out / temperature, dim=1), soft, reduction="batchmean") * temperature**2
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.4f}")


torch.manual_seed(114)
file = io.BytesIO()
pretrain(file)
file.seek(0)
teacher = load_teacher(file)
student = convnet(4, dropout=0.0)
distil(student, teacher, first=80)
x, y = shapes(500, brightness=0.6)
student.eval()
with torch.no_grad():
    noise = (teacher(x) - teacher(x)).abs().mean().item()
    right = (student(x).argmax(1) == y).float().mean().item()
print(f"final student={right:.3f} teacher_noise={noise:.3f}")
