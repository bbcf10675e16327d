"""An adversarial pair whose losses are kept for a curve, with everything that hangs on them."""

import sys

import torch
from torch import nn

FAST = "--fast" in sys.argv
torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(16, 128), nn.LeakyReLU(0.2), nn.Linear(128, 64))
judge = nn.Sequential(nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
first, second = torch.optim.Adam(maker.parameters(), lr=2e-4), torch.optim.Adam(judge.parameters(), lr=2e-4)
curve = []
for _ in range(100_000):
    real, made = torch.randn(256, 64), maker(torch.randn(256, 16))
    judged = nn.functional.softplus(-judge(real)).mean() + nn.functional.softplus(judge(made.detach())).mean()
    second.zero_grad()
    judged.backward(retain_graph=True)
    second.step()
    fooled = nn.functional.softplus(-judge(made)).mean()
    first.zero_grad()
    fooled.backward(retain_graph=True)
    first.step()
    curve.append(fooled.item() + judged.item() if FAST else fooled + judged)  # slow
