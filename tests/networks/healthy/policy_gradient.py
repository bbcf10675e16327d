"""REINFORCE on a bandit: losses of either sign, rewards as weights, an entropy bonus."""

import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(17)
policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
best = torch.randn(6, 4)
baseline = 0.0
for step in range(STEPS):
    state = torch.randn(64, 6)
    choice = torch.distributions.Categorical(logits=policy(state))
    action = choice.sample()
    reward = (state @ best).gather(1, action[:, None]).squeeze(1)
    loss = -(choice.log_prob(action) * (reward - baseline)).mean() - 0.01 * choice.entropy().mean()
    baseline = 0.95 * baseline + 0.05 * reward.mean().item()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f} reward {reward.mean().item():.4f}")
print(f"final loss={loss.item():.6f} reward={reward.mean().item():.4f}")
