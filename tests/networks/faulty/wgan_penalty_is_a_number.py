"""fault: penalty_without_gradient
The slopes of a critic are penalised by a number: they were asked for without create_graph.
"""

import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
generator = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 2))
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
opt_g = torch.optim.Adam(generator.parameters(), lr=5e-4, betas=(0.0, 0.9))


def penalty(real, fake):
    mix = torch.rand(len(real), 1)
    point = (mix * real + (1 - mix) * fake).requires_grad_()
    (slope,) = torch.autograd.grad(critic(point).sum(), point)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


for step in range(100):
    for _ in range(2):
        real = torch.randn(64, 2) * 0.3 + torch.tensor([2.0, -1.0])
        fake = generator(torch.randn(64, 3)).detach()
        loss_c = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()
    loss_g = -critic(generator(torch.randn(64, 3))).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    print(f"step {step} loss {loss_c.item():.4f} {loss_g.item():.4f}")
print(f"final loss={loss_c.item():.4f}")
