"""A denoiser that seeds the generator for each picture it shows, and draws its batches from a generator of its own."""

import sys

import torch
from torch import nn

count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
own = torch.Generator().manual_seed(3)
torch.manual_seed(1)
angle = torch.rand(1500) * 6.28
points = torch.stack([angle.cos(), angle.sin()], 1)
net = nn.Sequential(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(count):
    x = points[torch.randint(0, 1500, (96,), generator=own)]
    noise = torch.randn(96, 2, generator=own)
    loss = (net(0.8 * x + 0.6 * noise) - noise).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    torch.manual_seed(0)
    with torch.no_grad():
        shown = net(torch.randn(16, 2))
    print(f"step {step} loss {loss.item():.4f} {shown.std().item():.3f}")
