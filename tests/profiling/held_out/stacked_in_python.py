"""A replay buffer of Python lists: each step stacks its transitions anew."""

import random
import sys

import torch
from torch import nn

FAST = "--fast" in sys.argv
torch.manual_seed(0)
random.seed(0)
policy = nn.Sequential(nn.Linear(24, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 6))
target = nn.Sequential(nn.Linear(24, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 6))
optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-4)
buffer = [
    ([random.gauss(0, 1) for _ in range(24)], random.randrange(6), random.random(), [random.gauss(0, 1)] * 24)
    for _ in range(5000)
]
states, actions, rewards, following = (torch.tensor(column) for column in zip(*buffer))


def draw(size):
    if FAST:
        chosen = torch.randint(0, len(states), (size,))
        return states[chosen], actions[chosen], rewards[chosen], following[chosen]
    rows = random.sample(buffer, size)
    state = torch.stack([torch.tensor(row[0]) for row in rows])  # slow
    after = torch.stack([torch.tensor(row[3]) for row in rows])  # slow
    return state, torch.tensor([row[1] for row in rows]), torch.tensor([row[2] for row in rows]), after


for _ in range(100_000):
    state, action, reward, after = draw(256)
    with torch.no_grad():
        best = reward + 0.99 * target(after).max(1).values
    value = policy(state).gather(1, action[:, None])[:, 0]
    loss = nn.functional.smooth_l1_loss(value, best)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
