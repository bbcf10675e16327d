"""Trains four small compiled networks and says what came out, bit by bit. Run as it is and by `tensight run`."""

import hashlib
import json
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

said: dict = {}


def say(name: str, net: nn.Module, losses: list) -> None:
    values = [*net.state_dict().values(), *(p.grad for p in net.parameters() if p.grad is not None)]
    code = hashlib.sha256(b"".join(value.detach().numpy().tobytes() for value in values)).hexdigest()
    said[name] = [[loss.item().hex() for loss in losses], code]


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.act = nn.ReLU()
        self.drop = nn.Dropout(0.2)
        self.second = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.act(self.first(x)))
        return self.head(self.norm(x + self.second(x)))


class Pictures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.act = nn.ReLU(inplace=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.act(self.norm(self.conv(x))).mean((2, 3)))


class Distance(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.log((x - y).pow(2).sum(1))  # the bad line


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(6, 4)
        self.distance = Distance()
        self.scale = nn.Linear(1, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.scale(self.distance(self.encoder(x), self.encoder(y))[:, None])


def train_a_module() -> None:
    perceptron = Perceptron()
    model = torch.compile(perceptron)
    optimizer = torch.optim.AdamW(perceptron.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.randn(16, 8)), torch.randint(0, 3, (16,)))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    say("perceptron", perceptron, losses)


def train_a_module_that_compiles_itself() -> None:
    pictures = Pictures()
    pictures.compile(fullgraph=True)
    optimizer = torch.optim.SGD(pictures.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = F.cross_entropy(pictures(torch.randn(4, 2, 6, 6)), torch.randint(0, 3, (4,)))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    say("pictures", pictures, losses)


def train_in_a_function() -> None:
    halves = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(halves.parameters(), lr=0.1)

    @torch.compile(fullgraph=True)
    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return F.mse_loss(halves(x).float(), y)

    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = loss_of(torch.randn(8, 4), torch.randn(8, 1))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    say("halves", halves, losses)


def train_until_it_breaks() -> None:
    pairs = Pairs()
    model = torch.compile(pairs)
    optimizer = torch.optim.SGD(pairs.parameters(), lr=0.01)
    x, y, t = torch.randn(60, 6), torch.randn(60, 6), torch.randn(60, 1)
    y[38] = x[38]
    losses = []
    for a, b, c in DataLoader(TensorDataset(x, y, t), batch_size=12):
        optimizer.zero_grad()
        loss = ((model(a, b) - c) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    say("pairs", pairs, losses)


def main(out: str) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for train in (train_a_module, train_a_module_that_compiles_itself, train_in_a_function, train_until_it_breaks):
        train()
    counters = torch._dynamo.utils.counters
    said["graphs"] = counters["stats"]["unique_graphs"]
    said["breaks"] = sum(counters["graph_break"].values())
    with open(out, "w") as file:
        json.dump(said, file)


if __name__ == "__main__":
    main(sys.argv[1])
