"""A Wasserstein GAN: the critic steps five times for each step of the generator, and its weights are clipped."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(1)
corners = torch.tensor([[2.0, 0], [-2, 0], [0, 2], [0, -2]])
generator = nn.Sequential(nn.Linear(4, 48), nn.ReLU(True), nn.Linear(48, 48), nn.ReLU(True), nn.Linear(48, 2))
critic = nn.Sequential(nn.Linear(2, 48), nn.ReLU(True), nn.Linear(48, 48), nn.ReLU(True), nn.Linear(48, 1))
for_critic = torch.optim.RMSprop(critic.parameters(), lr=5e-4)
for_generator = torch.optim.RMSprop(generator.parameters(), lr=5e-4)
for step in range(STEPS):
    critic.requires_grad_(True)
    for _ in range(5):
        real = corners[torch.randint(0, 4, (64,))] + 0.1 * torch.randn(64, 2)
        with torch.no_grad():
            fake = generator(torch.randn(64, 4))
        loss = critic(fake).mean() - critic(real).mean()
        for_critic.zero_grad()
        loss.backward()
        for_critic.step()
        with torch.no_grad():
            for weight in critic.parameters():
                weight.clamp_(-0.05, 0.05)
    critic.requires_grad_(False)
    fooled = -critic(generator(torch.randn(64, 4))).mean()
    for_generator.zero_grad()
    fooled.backward()
    for_generator.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f} generator {fooled.item():.6f}")
print(f"final loss={loss.item():.6f}")
