"""A cosine that is stepped after each batch and swings on purpose: weights are kept each time the rate is lowest."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(37)
HALF = 40  # updates from the highest rate to the lowest
SWINGS = 7

x = torch.randn(2000, 12)
y = (torch.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] > 0).long() + (x[:, 3] > 0.8).long()
net = nn.Sequential(nn.Linear(12, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
cycle = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=HALF)
snapshots = []
for step in range(SWINGS * HALF):
    part = torch.randint(0, 2000, (64,))
    loss = F.cross_entropy(net(x[part]), y[part])
    opt.zero_grad()
    loss.backward()
    opt.step()
    cycle.step()
    print(f"step {step} loss {loss.item():.4f}")
    if step % (2 * HALF) == HALF - 1:
        snapshots.append(copy.deepcopy(net).eval())
with torch.no_grad():
    together = torch.stack([one(x).softmax(-1) for one in snapshots]).mean(0)
print(f"final loss={loss.item():.4f} acc={(together.argmax(1) == y).float().mean().item():.3f}")
