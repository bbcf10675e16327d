"""What the slow programs share: a small network, and a loop as anybody writes it."""

import torch
from torch import nn

torch.manual_seed(0)


def network(width: int = 64, inputs: int = 32, outputs: int = 8) -> nn.Module:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


def batch(size: int = 64, inputs: int = 32, classes: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(size, inputs), torch.randint(0, classes, (size,))
