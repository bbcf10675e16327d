"""A small PyTorch training that keeps what a dump of it must hold; `compiled` compiles the model."""

import sys

import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.act = nn.ReLU()
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        hidden = self.first(x)
        return self.head(self.act(hidden)), hidden


def main():
    torch.manual_seed(0)
    model = Net()
    called = torch.compile(model, backend="eager") if "compiled" in sys.argv else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
    kept = {}
    for step in range(4):
        logits, hidden = called(x)
        loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        kept[f"first.{step}"] = hidden.detach().clone().numpy()
        kept[f"logits.{step}"] = logits.detach().clone().numpy()
        kept[f"gradient.{step}"] = model.head.weight.grad.detach().clone().numpy()
        optimizer.step()
        kept[f"weight.{step}"] = model.head.weight.detach().clone().numpy()
    np.savez("kept.npz", **kept)


main()
