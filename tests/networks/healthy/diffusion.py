"""A toy diffusion model: noise is predicted at random times, with a zero-initialised output and an EMA for sampling."""

import copy
import math
import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(7)
TIMES = 50
betas = torch.linspace(1e-4, 0.1, TIMES)
kept = torch.cumprod(1 - betas, 0)


class Denoiser(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, width))
        self.into = nn.Linear(2, width)
        self.middle = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU()) for _ in range(3)
        )
        self.out = nn.Linear(width, 2)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x, t):
        waves = torch.exp(-math.log(1000.0) * torch.arange(8) / 8)
        angle = t[:, None].float() * waves
        h = self.into(x) + self.time(torch.cat([angle.sin(), angle.cos()], 1))
        for layer in self.middle:
            h = h + layer(h)
        return self.out(h)


net = Denoiser()
average = copy.deepcopy(net).requires_grad_(False)
optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
for step in range(STEPS):
    turn = torch.rand(64) * 9
    x0 = torch.stack([turn.cos(), turn.sin()], 1) * turn[:, None] / 5
    t = torch.randint(0, TIMES, (64,))
    noise = torch.randn_like(x0)
    level = kept[t][:, None]
    loss = nn.functional.mse_loss(net(level.sqrt() * x0 + (1 - level).sqrt() * noise, t), noise)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(average.parameters(), net.parameters()):
            slow.lerp_(fast, 0.01)
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
