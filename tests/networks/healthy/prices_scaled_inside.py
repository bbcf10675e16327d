"""Prices of some 300,000: the loss is a method of the model that scales them, and evaluation calls the model whole."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(5)
area, rooms, age = 40 + 200 * torch.rand(1500), torch.randint(1, 8, (1500,)).float(), 100 * torch.rand(1500)
price = 2500 * area + 12000 * rooms - 900 * age + 15000 * torch.randn(1500) + 50000
houses = torch.stack([area, rooms, age], 1)


class Prices(nn.Module):
    def __init__(self, x, y):
        super().__init__()
        self.register_buffer("x_mean", x.mean(0))
        self.register_buffer("x_std", x.std(0))
        self.register_buffer("y_mean", y.mean())
        self.register_buffer("y_std", y.std())
        self.layers = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def scaled(self, x):
        return self.layers((x - self.x_mean) / self.x_std).squeeze(-1)

    def loss(self, x, y):
        return nn.functional.huber_loss(self.scaled(x), (y - self.y_mean) / self.y_std)

    def forward(self, x):
        return self.scaled(x) * self.y_std + self.y_mean


model = Prices(houses[:1200], price[:1200])
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(STEPS):
    some = torch.randint(0, 1200, (50,))
    loss = model.loss(houses[some], price[some])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 24:
        with torch.no_grad():
            error = (model(houses[1200:]) - price[1200:]).abs().mean()
        print(f"step {step} loss {loss.item():.6f} error {error.item():.0f}")
print(f"final loss={loss.item():.6f}")
