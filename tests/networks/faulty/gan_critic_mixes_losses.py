"""fault: gradients_of_another_loss
A GAN whose critic clears its gradients before the generator's backward pass fills them again.
"""

import math

import torch
from torch import nn

torch.manual_seed(8)
LATENT = 8


def ring(n):
    angle = torch.randint(0, 8, (n,)) * (2 * math.pi / 8)
    return torch.stack([angle.cos(), angle.sin()], 1) * 2 + 0.05 * torch.randn(n, 2)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(LATENT, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 2)
        )

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1)
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


gen, disc = Generator(), Discriminator()
opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(disc.parameters(), lr=1e-3, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(64), torch.zeros(64)

for step in range(300):
    # discriminator
    real = ring(64)
    fake = gen(torch.randn(64, LATENT))
    loss_d = bce(disc(real), ones) + bce(disc(fake.detach()), zeros)
    loss_d.backward()
    opt_d.step()

    # generator
    opt_d.zero_grad()
    opt_g.zero_grad()
    loss_g = 4 * bce(disc(gen(torch.randn(64, LATENT))), ones)
    loss_g.backward()
    opt_g.step()
    print(f"step {step} loss {loss_d.item():.4f} g {loss_g.item():.4f}")

with torch.no_grad():
    fake = gen(torch.randn(512, LATENT))
    edge = (fake.norm(dim=1) - 2).abs().mean().item()
    gap = (disc(ring(512)).sigmoid().mean() - disc(fake).sigmoid().mean()).item()
print(f"final loss={loss_d.item():.4f} radius_error={edge:.3f} gap={gap:.3f}")
