"""A graph network by scatter-add, evaluated under no_grad; validation nodes are left out by a mask."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 500
torch.manual_seed(0)
NODES = 200
label = torch.randint(0, 3, (NODES,))
features = torch.randn(3, 10)[label] + torch.randn(NODES, 10)
near = (label[:, None] == label[None]) & (torch.rand(NODES, NODES) < 0.05)
source, target = near.nonzero().T
known = torch.rand(NODES) < 0.6


class Layer(nn.Module):
    def __init__(self, given, wanted):
        super().__init__()
        self.own, self.others = nn.Linear(given, wanted), nn.Linear(given, wanted, bias=False)

    def forward(self, x):
        gathered = torch.zeros(len(x), x.shape[1]).index_add(0, target, x[source])
        count = torch.zeros(len(x)).index_add(0, target, torch.ones(len(target))).clamp(min=1)
        return self.own(x) + self.others(gathered / count[:, None])


model = nn.Sequential(Layer(10, 32), nn.ReLU(), nn.Dropout(0.3), Layer(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
for step in range(steps):
    model.train()
    loss = nn.functional.cross_entropy(model(features)[known], label[known])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        model.eval()
        with torch.no_grad():
            right = (model(features)[~known].argmax(1) == label[~known]).float().mean()
