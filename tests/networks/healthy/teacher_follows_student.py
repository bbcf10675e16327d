"""A mean teacher that follows its student."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = 250
DECAY = 0.95


def two_rings(n, gen):
    label = torch.randint(0, 3, (n,), generator=gen)
    angle = torch.rand(n, generator=gen) * 6.2832
    radius = 0.5 + 0.9 * label + 0.15 * torch.randn(n, generator=gen)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1), label


def build():
    return nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))


@torch.no_grad()
def update_ema(target, source, decay=DECAY):
    for p_t, p_s in zip(target.parameters(), source.parameters()):
        p_t.mul_(decay).add_(p_s, alpha=1 - decay)


def accuracy(net, x, y):
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


def train():
    torch.manual_seed(12)
    gen = torch.Generator().manual_seed(4)
    x_lab, y_lab = two_rings(150, gen)
    x_un, _ = two_rings(2000, gen)
    x_test, y_test = two_rings(500, gen)

    student = build()
    teacher = copy.deepcopy(student)
    for p in teacher.parameters():
        p.requires_grad_(False)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)

    for step in range(STEPS):
        i = torch.randint(0, len(x_lab), (32,), generator=gen)
        j = torch.randint(0, len(x_un), (64,), generator=gen)
        u = x_un[j]
        with torch.no_grad():
            soft = teacher(u + 0.05 * torch.randn(u.shape, generator=gen)).softmax(1)
        sup = F.cross_entropy(student(x_lab[i]), y_lab[i])
        con = F.mse_loss(student(u + 0.05 * torch.randn(u.shape, generator=gen)).softmax(1), soft)
        loss = sup + min(1.0, step / 100) * con
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        update_ema(teacher, student)
        print(f"step {step} loss {loss.item():.4f}")
    final = [accuracy(net, x_test, y_test) for net in (student, teacher)]
    print(f"final loss={loss.item():.4f} student={final[0]:.3f} teacher={final[1]:.3f}")


if __name__ == "__main__":
    train()
