"""A spiking network: steps forward, a surrogate slope backward, twelve points in time."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(8)


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, potential):
        ctx.save_for_backward(potential)
        return (potential > 0).float()

    @staticmethod
    def backward(ctx, gradient):
        (potential,) = ctx.saved_tensors
        return gradient / (1 + 10 * potential.abs()) ** 2


class Leaky(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.layer = nn.Linear(inside, outside)

    def forward(self, x, potential):
        potential = 0.85 * potential + self.layer(x)
        spike = Spike.apply(potential - 1.0)
        return spike, potential - spike.detach()


class Spiking(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.reading = Leaky(20, 48), Leaky(48, 48), nn.Linear(48, 3)

    def forward(self, x):
        one = two = torch.zeros(x.size(0), 48)
        out = 0
        for _ in range(12):
            spike, one = self.first(x, one)
            spike, two = self.second(spike, two)
            out = out + self.reading(spike)
        return out / 12


centres = torch.randn(3, 20)
net = Spiking()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(STEPS):
    y = torch.randint(0, 3, (64,))
    loss = nn.functional.cross_entropy(net(centres[y] + 0.7 * torch.randn(64, 20)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
