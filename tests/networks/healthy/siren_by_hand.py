"""Gradient descent without an optimizer."""

import math

import torch
from torch import nn

torch.manual_seed(8)


class Sine(nn.Module):
    def __init__(self, fan_in, fan_out, omega):
        super().__init__()
        self.linear = nn.Linear(fan_in, fan_out)
        self.omega = omega
        bound = math.sqrt(6 / fan_in) / omega
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, x):
        return torch.sin(self.omega * self.linear(x))


class Siren(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Sine(2, 64, 3.0)
        self.second = Sine(64, 64, 3.0)
        self.readout = nn.Linear(64, 1)

    def forward(self, x):
        return self.readout(self.second(self.first(x)))


def skin(xy):
    return torch.sin(math.pi * xy[:, :1]) * torch.sin(2 * math.pi * xy[:, 1:])


def sgd_update(net, lr):
    with torch.no_grad():
        for p in net.parameters():
            p -= lr * p.grad


def main():
    net = Siren()
    xy = torch.rand(2000, 2)
    z = skin(xy)
    for step in range(300):
        pick = torch.randint(0, 2000, (128,))
        loss = (net(xy[pick]) - z[pick]).square().mean()
        net.zero_grad()
        loss.backward()
        sgd_update(net, lr=0.02)
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    with torch.no_grad():
        err = (net(xy) - z).abs().mean()
    print(f"final error={err.item():.4f}")


main()
