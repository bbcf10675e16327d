"""The loss turns NaN after a while: a square root is taken of exactly zero."""

import torch
from torch import nn

torch.manual_seed(0)


class Siamese(nn.Module):
    """Learns points whose distances say which pairs belong together."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))

    def forward(self, left, right):
        gap = self.encoder(left) - self.encoder(right)
        return torch.sqrt((gap**2).sum(dim=1))


left = torch.randn(512, 8)
right = torch.randn(512, 8)
right[400] = left[400]  # one pair is a duplicate, as in many real data sets
same = (torch.rand(512) < 0.5).float()

model = Siamese()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(60):
    rows = torch.arange(step * 16, step * 16 + 16) % 512
    distance = model(left[rows], right[rows])
    loss = (same[rows] * distance**2 + (1 - same[rows]) * (1 - distance).clamp(min=0) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f}")
