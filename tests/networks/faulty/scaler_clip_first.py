"""fault: clip_before_unscale
Gradients are clipped while they still carry the loss scale: after unscaling next to nothing is left of them.
"""

import torch
from torch import nn

torch.manual_seed(10)
net = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU(), nn.Linear(48, 6))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
centres = torch.randn(6, 24)
for step in range(150):
    y = torch.randint(0, 6, (32,))
    x = centres[y] + torch.randn(32, 24)
    with torch.autocast("cpu", dtype=torch.float16):
        out = net(x)
    loss = nn.functional.cross_entropy(out.float(), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    print(f"step {step} loss {loss.item():.6f}")
