"""Pictures rebuilt for a loss on features of fixed random layers, which are in no optimizer."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(71)
pictures = nn.functional.interpolate(torch.rand(256, 1, 4, 4), size=(12, 12), mode="bilinear")
net = nn.Sequential(
    nn.Conv2d(1, 8, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.ConvTranspose2d(8, 8, 2, stride=2),
    nn.ReLU(),
    nn.Conv2d(8, 1, 1),
)
features = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(STEPS):
    x = pictures[torch.randint(0, 256, (24,))]
    rebuilt = net(x)
    loss = nn.functional.mse_loss(rebuilt, x) + 0.5 * nn.functional.mse_loss(features(rebuilt), features(x).detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
