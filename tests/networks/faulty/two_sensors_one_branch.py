"""fault: module_never_used
Two sensors, two branches, and both inputs go through the first branch.
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(70)


class ResidualTower(nn.Module):
    """Two-branch regressor: one branch for each kind of sensor."""

    def __init__(self, width=32):
        super().__init__()
        self.radar = nn.Sequential(nn.Linear(10, width), nn.GELU(), nn.Linear(width, width))
        self.lidar = nn.Sequential(nn.Linear(10, width), nn.GELU(), nn.Linear(width, width))
        self.join = nn.Linear(2 * width, width)
        self.out = nn.Linear(width, 1)

    def forward(self, radar, lidar):
        a = self.radar(radar)
        b = self.radar(lidar)
        return self.out(F.gelu(self.join(torch.cat([a, b], 1)))).squeeze(1)


wr, wl = torch.randn(10), torch.randn(10)
radar, lidar = torch.randn(2000, 10), torch.randn(2000, 10)
target = torch.sin(radar @ wr) + torch.tanh(lidar @ wl) * (lidar[:, 0] > 0)

model = ResidualTower()
optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
start = model.lidar[0].weight.detach().clone()
for step in range(220):
    i = torch.randint(0, 1800, (100,))
    loss = F.mse_loss(model(radar[i], lidar[i]), target[i])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}")
moved = (model.lidar[0].weight - start).abs().max().item()
print(f"final loss={loss.item():.4f} moved={moved:.5f}")
