"""fault: dead_relu

The last layer of a regression ends in a ReLU although every target is negative.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


def spectra(n, generator):
    logc = -3.0 + 2.6 * torch.rand(n, 1, generator=generator)
    centre = 40 + 10 * torch.rand(n, 1, generator=generator)
    grid = torch.arange(96.0)
    peak = torch.exp(-(((grid - centre) / 6) ** 2))
    signal = (logc + 3) * peak + 0.05 * torch.randn(n, 96, generator=generator)
    return signal.unsqueeze(1), logc


def conv_block(c_in, c_out):
    return nn.Sequential(nn.Conv1d(c_in, c_out, 5, stride=2, padding=2), nn.BatchNorm1d(c_out), nn.ReLU())


class SpectrumNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(conv_block(1, 16), conv_block(16, 32), conv_block(32, 32))
        self.regressor = nn.Sequential(nn.Flatten(), nn.Linear(32 * 12, 64), nn.ReLU(), nn.Linear(64, 1), nn.ReLU())

    def forward(self, x):
        return self.regressor(self.features(x))


def train(net, lr=0.02, steps=150, batch=48):
    generator = torch.Generator().manual_seed(9)
    for step in range(steps):
        x, y = spectra(batch, generator)
        loss = F.mse_loss(net(x), y)
        net.zero_grad()
        loss.backward()
        rate = lr * 0.5 * (1 + math.cos(math.pi * step / steps))
        with torch.no_grad():
            for p in net.parameters():
                p -= rate * p.grad
        print(f"step {step} loss {loss.item():.4f}")
    return net


def main():
    torch.manual_seed(104)
    net = train(SpectrumNet())
    net.eval()
    x, y = spectra(256, torch.Generator().manual_seed(10))
    with torch.no_grad():
        error = (net(x) - y).abs().mean().item()
    print(f"final error={error:.4f}")


if __name__ == "__main__":
    main()
