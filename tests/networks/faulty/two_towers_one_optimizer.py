"""fault: parameters_not_in_optimizer

A retrieval model of two towers: the optimizer was given one of them.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(57)
latent = torch.randn(1600, 8)
query = torch.tanh(latent @ torch.randn(8, 20)) + 0.1 * torch.randn(1600, 20)
doc = torch.tanh(latent @ torch.randn(8, 36)) + 0.1 * torch.randn(1600, 36)


class Tower(nn.Module):
    def __init__(self, i, o=12):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(i, 64), nn.ReLU(), nn.Linear(64, o))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.query_tower = Tower(20)
        self.doc_tower = Tower(36)

    def forward(self, q, d):
        return self.query_tower(q) @ self.doc_tower(d).t() / 0.1


model = TwoTower()
opt = torch.optim.Adam(model.query_tower.parameters(), lr=2e-3)
for step in range(250):
    i = torch.randint(0, 1600, (64,))
    logits = model(query[i], doc[i])
    loss = F.cross_entropy(logits, torch.arange(64))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item():.4f}")
print(f"final loss={loss.item():.4f}")
