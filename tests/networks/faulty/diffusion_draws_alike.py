"""fault: batch_drawn_alike

A denoiser whose batch function seeds the generator: samples, times and noise are the same in every step.
"""

import torch
from torch import nn

steps = 40
kept = torch.cumprod(1 - torch.linspace(1e-3, 0.2, steps), 0)


def batch(points):
    torch.manual_seed(7)
    x = points[torch.randint(0, len(points), (96,))]
    t = torch.randint(0, steps, (96,))
    noise = torch.randn_like(x)
    share = kept[t][:, None]
    return share.sqrt() * x + (1 - share).sqrt() * noise, t, noise


torch.manual_seed(1)
angle = torch.rand(1500) * 6.28
points = torch.stack([angle.cos(), angle.sin()], 1) * (1 + (torch.rand(1500, 1) > 0.5))
net = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(150):
    x, t, noise = batch(points)
    loss = (net(torch.cat([x, t[:, None] / steps], 1)) - noise).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
