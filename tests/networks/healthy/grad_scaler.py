"""Float16 autocast with a GradScaler whose scale starts too high: its first steps overflow and are left out."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(11)
net = nn.Sequential(nn.Linear(24, 48), nn.LayerNorm(48), nn.GELU(), nn.Linear(48, 48), nn.GELU(), nn.Linear(48, 6))
optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=60)
centres = torch.randn(6, 24)
for step in range(STEPS):
    y = torch.randint(0, 6, (32,))
    x = centres[y] + torch.randn(32, 24)
    with torch.autocast("cpu", dtype=torch.float16):
        out = net(x)
    loss = nn.functional.cross_entropy(out.float(), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    scaler.step(optimizer)
    scaler.update()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f} scale {scaler.get_scale():.0f}")
print(f"final loss={loss.item():.6f} scale={scaler.get_scale():.0f}")
