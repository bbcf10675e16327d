"""An LSTM forecast with ordinary clipping."""

import math

import torch
from torch import nn

torch.manual_seed(41)

CONFIG = {"window": 24, "horizon": 3, "hidden": 32, "batch": 32, "lr": 0.1, "momentum": 0.9, "clip": 1.0, "steps": 300}


def synth(n=3000):
    t = torch.arange(n, dtype=torch.float32)
    s = torch.sin(2 * math.pi * t / 24) + 0.5 * torch.sin(2 * math.pi * t / 60 + 1) + 0.1 * torch.randn(n)
    return (s - s.mean()) / s.std()


class Forecaster(nn.Module):
    def __init__(self, hidden, horizon):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.head = nn.Linear(hidden, horizon)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.head(out[:, -1])


def batches(series, cfg):
    w, h = cfg["window"], cfg["horizon"]
    while True:
        start = torch.randint(0, len(series) - w - h, (cfg["batch"],)).tolist()
        x = torch.stack([series[s : s + w] for s in start]).unsqueeze(-1)
        y = torch.stack([series[s + w : s + w + h] for s in start])
        yield x, y


def fit(cfg):
    series = synth()
    model = Forecaster(cfg["hidden"], cfg["horizon"])
    opt = torch.optim.SGD(model.parameters(), lr=cfg["lr"], momentum=cfg["momentum"])
    source = batches(series, cfg)
    for step in range(cfg["steps"]):
        x, y = next(source)
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), cfg["clip"])
        opt.step()
        print(f"step {step} loss {loss.item():.4f}")
    return loss.item()


print(f"final loss={fit(CONFIG):.4f}")
