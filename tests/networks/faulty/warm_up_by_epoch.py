"""fault: warmup_never_ends

A warm-up counted in steps that is stepped once an epoch.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(14)
x = torch.randn(640, 12)
y = (x[:, 0] * x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
net = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda n: min(1.0, (n + 1) / 500) * 1e-2 if n < 500 else 1.0)
step = 0
for _epoch in range(8):
    for xb, yb in loader:
        loss = nn.functional.cross_entropy(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.4f}")
        step += 1
    sched.step()
