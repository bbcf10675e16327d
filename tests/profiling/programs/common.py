"""What the slow programs share: a small network, and a loop as anybody writes it."""

import sys

import torch
from torch import nn

torch.manual_seed(0)


def mended(setting: str, otherwise: float) -> float:
    """What a program is told by `--mended setting=value`: the change that its author would write into it."""
    found = [word for word in sys.argv if word.startswith(f"{setting}=") or word == setting]
    return float(found[0].partition("=")[2] or 1) if "--mended" in sys.argv and found else otherwise


def network(width: int = 64, inputs: int = 32, outputs: int = 8) -> nn.Module:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


def batch(size: int = 64, inputs: int = 32, classes: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(size, inputs), torch.randint(0, classes, (size,))
