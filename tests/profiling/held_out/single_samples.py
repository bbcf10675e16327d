"""Molecules one at a time through a small graph network."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FAST = "--fast" in sys.argv
torch.manual_seed(0)


class Molecules(Dataset):
    def __init__(self):
        self.nodes, self.edges = torch.randn(500, 10, 16), torch.rand(500, 10, 10).round()

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        index %= 500
        return self.nodes[index], self.edges[index], float(index % 3)


class Messages(nn.Module):
    def __init__(self):
        super().__init__()
        self.inlet = nn.Linear(16, 64)
        self.rounds = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.out = nn.Linear(64, 1)

    def forward(self, nodes, edges):
        x = self.inlet(nodes)
        for one in self.rounds:
            x = x + torch.relu(one(edges @ x / 10))
        return self.out(x.sum(1))[:, 0]


model = Messages()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(Molecules(), batch_size=256 if FAST else 1, shuffle=True)  # slow
for nodes, edges, wanted in loader:
    loss = nn.functional.mse_loss(model(nodes, edges), wanted.float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
