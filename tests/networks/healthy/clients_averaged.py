"""Federated averaging: clients with data of few classes, copies and optimizers made anew in each round."""

import copy
import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(15)
centres = torch.randn(5, 16)
clients = []
for own in range(5):
    y = torch.where(torch.rand(200) < 0.5, torch.tensor(own), torch.randint(0, 5, (200,)))
    clients.append((centres[y] + 0.7 * torch.randn(200, 16), y))
server = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 5))
for turn in range(STEPS // 20):
    states = []
    for x, y in clients:
        local = copy.deepcopy(server)
        optimizer = torch.optim.SGD(local.parameters(), lr=0.1)
        for rows in torch.randperm(200).split(50):
            loss = nn.functional.cross_entropy(local(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        states.append(local.state_dict())
    server.load_state_dict({name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]})
    print(f"step {20 * turn} loss {loss.item():.6f}")
print(f"final loss={loss.item():.6f}")
