"""A domain critic that sees one class in each line, and an encoder that learns to confuse it."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(6)


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -0.1 * gradient


encoder = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
task, critic = nn.Linear(16, 3), nn.Linear(16, 2)
parameters = [*encoder.parameters(), *task.parameters(), *critic.parameters()]
optimizer = torch.optim.Adam(parameters, lr=2e-3)
means = torch.randn(3, 12)
for step in range(200):
    label = torch.randint(0, 3, (32,))
    source = means[label] + 0.5 * torch.randn(32, 12)
    target = means[torch.randint(0, 3, (32,))] + 0.5 * torch.randn(32, 12) + 0.8
    a, b = encoder(source), encoder(target)
    loss = F.cross_entropy(task(a), label)
    loss = loss + F.cross_entropy(critic(Reverse.apply(a)), torch.zeros(32, dtype=torch.long))
    loss = loss + F.cross_entropy(critic(Reverse.apply(b)), torch.ones(32, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}")
