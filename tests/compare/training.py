"""A small transformer and a small convolutional network, trained a few steps and recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import tensight

Change = Callable[[Any], object]


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, 2, batch_first=True)
        self.ln2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.act = nn.GELU()
        self.drop = nn.Dropout(0.0)
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        h = self.ln1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.fc2(self.drop(self.act(self.fc1(self.ln2(x)))))


class Former(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(20, 16)
        self.blocks = nn.ModuleList(Block(16) for _ in range(3))
        self.ln = nn.LayerNorm(16)
        self.head = nn.Linear(16, 20)

    def forward(self, x: Any) -> Any:
        x = self.emb(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x)).flatten(0, 1)

    @staticmethod
    def batch() -> tuple[Any, Any]:
        return torch.randint(0, 20, (4, 6)), torch.randint(0, 20, (24,))


class Seeing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(3, 6, 3, padding=1)
        self.bn = nn.BatchNorm2d(6)
        self.relu = nn.LeakyReLU(0.01)
        self.c2 = nn.Conv2d(6, 8, 3, stride=2)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        return self.head(self.c2(self.relu(self.bn(self.c1(x)))).mean((2, 3)))

    @staticmethod
    def batch() -> tuple[Any, Any]:
        return torch.randn(6, 3, 8, 8), torch.randint(0, 5, (6,))


def record(
    folder: Path,
    kind: type[Any],
    change: Change | None = None,
    *,
    seed: int = 0,
    data: Callable[[Any], Any] | None = None,
    optimizer: Callable[[Any], Any] = lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=1e-2),
    loss: Callable[[Any, Any], Any] = functional.cross_entropy,
    steps: int = 3,
    level: str = "watch",
) -> Path:
    """Train and record; `change` is made to the model before."""
    torch.manual_seed(seed)
    model = kind()
    torch.manual_seed(1)
    x, y = kind.batch()
    torch.manual_seed(2)
    if change is not None:
        change(model)
    x = data(x) if data else x
    steering = optimizer(model.parameters())
    with tensight.watch(model, steering, run_dir=folder, quiet=True, budget=100, recommended=False, level=level):
        for _ in range(steps):
            value = loss(model(x), y)
            steering.zero_grad()
            value.backward()
            steering.step()
    return folder


def other_order(model: Any) -> None:
    """The same mathematics with other orders of summation."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.forward = _backwards(module)
        elif isinstance(module, nn.LayerNorm):
            module.forward = _by_hand(module)
        elif isinstance(module, nn.Conv2d):
            module.forward = _channels(module)


def _channels(module: Any) -> Any:
    order = torch.arange(module.in_channels - 1, -1, -1)
    return lambda x: module._conv_forward(x[:, order], module.weight[:, order], module.bias)


def _backwards(module: Any) -> Any:
    order = torch.arange(module.in_features - 1, -1, -1)
    return lambda x: functional.linear(x[..., order], module.weight[:, order], module.bias)


def _by_hand(module: Any) -> Any:
    def forward(x: Any) -> Any:
        centred = x - x.mean(-1, keepdim=True)
        return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + module.eps) * module.weight + module.bias

    return forward


def setting(path: str, **values: Any) -> Change:
    def change(model: Any) -> None:
        for name, value in values.items():
            setattr(model.get_submodule(path), name, value)

    return change


def weight(name: str, make: Callable[[Any], Any]) -> Change:
    def change(model: Any) -> None:
        with torch.no_grad():
            model.get_parameter(name).copy_(make(model.get_parameter(name).clone()))

    return change
