"""A GAN with two optimizers: the generator is detached while the discriminator learns."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(6)
generator = nn.Sequential(nn.Linear(8, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
discriminator = nn.Sequential(
    nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)
)
optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
real_label, fake_label = torch.ones(64, 1), torch.zeros(64, 1)

for step in range(STEPS):
    angle = torch.rand(64, 1) * 6.2832
    real = torch.cat([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(64, 2)
    fake = generator(torch.randn(64, 8))

    optimizer_d.zero_grad()
    loss_d = criterion(discriminator(real), real_label) + criterion(discriminator(fake.detach()), fake_label)
    loss_d.backward()
    optimizer_d.step()

    optimizer_g.zero_grad()
    loss_g = criterion(discriminator(fake), real_label)
    loss_g.backward()
    optimizer_g.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss_d.item():.6f} generator {loss_g.item():.6f}")
print(f"final loss={loss_d.item():.6f} generator={loss_g.item():.6f}")
