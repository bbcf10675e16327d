"""fault: bootstrap_target_not_detached
The target of a value is made of the values of the same network, and keeps its gradient.
"""

import random

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
N = 10
q = nn.Sequential(nn.Linear(N, 48), nn.ReLU(), nn.Linear(48, 2))
opt = torch.optim.Adam(q.parameters(), lr=2e-3)
eye = torch.eye(N)
memory, place = [], 0
for step in range(250):
    for _ in range(4):
        action = random.randrange(2) if random.random() < 0.4 else int(q(eye[place]).argmax())
        new = min(N - 1, place + 1) if action else max(0, place - 1)
        reward, done = (1.0, 1.0) if new == N - 1 else (0.0, 0.0)
        memory.append((place, action, reward, new, done))
        place = 0 if done else new
    s, a, r, n, d = (torch.tensor(v) for v in zip(*random.choices(memory, k=64)))
    value = q(eye[s]).gather(1, a[:, None]).squeeze(1)
    target = r + 0.95 * (1 - d) * q(eye[n]).max(1).values
    loss = nn.functional.mse_loss(value, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.5f}")
print(f"final loss={loss.item():.5f}")
