"""A Wasserstein GAN: the critic's weights are clipped by hand, and it steps five times for one of the generator."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
for_generator = torch.optim.RMSprop(generator.parameters(), lr=5e-4)
for_critic = torch.optim.RMSprop(critic.parameters(), lr=5e-4)


def real(size=64):
    angle = torch.rand(size) * 6.2832
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(size, 2)


for _ in range(steps // 5):
    for _ in range(5):
        with torch.no_grad():
            fake = generator(torch.randn(64, 4))
        loss = critic(fake).mean() - critic(real()).mean()
        for_critic.zero_grad()
        loss.backward()
        for_critic.step()
        with torch.no_grad():
            for weight in critic.parameters():
                weight.clamp_(-0.05, 0.05)
    loss = -critic(generator(torch.randn(64, 4))).mean()
    for_generator.zero_grad()
    loss.backward()
    for_generator.step()
