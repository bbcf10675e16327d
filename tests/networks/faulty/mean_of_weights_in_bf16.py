"""fault: bf16_lost_updates

The running mean of the student's weights is kept in bfloat16, where its small steps are rounded away.
"""

import copy

import torch
import torch.nn.functional as F
from torch import nn

DECAY = 0.998


def two_moons(n, noise=0.15):
    t = torch.rand(n) * torch.pi
    side = torch.randint(0, 2, (n,))
    x = torch.stack([torch.cos(t), torch.sin(t)], 1)
    x[side == 1] = torch.tensor([1.0, 0.5]) - x[side == 1]
    return x + noise * torch.randn(n, 2), side


def network():
    return nn.Sequential(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))


@torch.no_grad()
def update_teacher(teacher, student):
    for t, s in zip(teacher.parameters(), student.parameters()):
        t.mul_(DECAY).add_(s.to(t.dtype), alpha=1 - DECAY)


def accuracy(net, x, y):
    dtype = next(net.parameters()).dtype
    with torch.no_grad():
        return (net(x.to(dtype)).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(112)
    unlabelled, hidden = two_moons(2000)
    few_x, few_y = two_moons(60)
    student = network()
    teacher = copy.deepcopy(student).bfloat16().requires_grad_(False)  # half the memory
    dtype = next(teacher.parameters()).dtype
    opt = torch.optim.Adam(student.parameters(), lr=3e-3)
    for step in range(300):
        batch = unlabelled[torch.randint(0, 2000, (64,))]
        with torch.no_grad():
            guide = teacher(batch.to(dtype)).float().softmax(1)
        supervised = F.cross_entropy(student(few_x), few_y)
        consistency = F.mse_loss(student(batch + 0.1 * torch.randn_like(batch)).softmax(1), guide)
        loss = supervised + 0.3 * min(1.0, step / 300) * consistency
        opt.zero_grad()
        loss.backward()
        opt.step()
        update_teacher(teacher, student)
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final student={accuracy(student, unlabelled, hidden):.3f}")
    print(f"final teacher={accuracy(teacher, unlabelled, hidden):.3f}")


if __name__ == "__main__":
    main()
