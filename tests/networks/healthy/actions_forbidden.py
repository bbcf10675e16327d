"""A policy whose forbidden actions have the logit -inf, and so a chance of 0."""

import sys

import torch
from torch import nn
from torch.distributions import Categorical

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(13)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 6))

    def forward(self, state, allowed):
        return self.layers(state).masked_fill(~allowed, float("-inf"))


policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
for step in range(STEPS):
    value, allowed = torch.randn(64, 6), torch.rand(64, 6) < 0.6
    allowed[:, 0] = True
    chances = Categorical(logits=policy(torch.cat([value, allowed.float()], 1), allowed))
    action = chances.sample()
    reward = value.gather(1, action[:, None])[:, 0]
    loss = -(chances.log_prob(action) * (reward - reward.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f} reward {reward.mean().item():.3f}")
print(f"final loss={loss.item():.6f}")
