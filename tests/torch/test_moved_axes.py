"""view and reshape that give axes another order without moving values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from .conftest import Watch


class Net(nn.Module):
    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = change
        self.out = nn.LazyLinear(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.change(x))


def told(watch: Watch, change: Any, *shape: int) -> list[dict]:
    sink = watch()
    Net(change)(torch.ones(*shape)).sum().backward()
    assert sink.failures == []
    return sink.kinds("moved_axes")


@pytest.mark.parametrize(
    ("change", "shape", "sizes"),
    [
        (lambda x: x.reshape(10, 32, 4), (32, 10, 4), "32x10"),
        (lambda x: x.view(32, -1), (2, 32, 8), "32"),
        (lambda x: torch.reshape(x, (32, 6, 10, 10)), (32, 10, 10, 6), "6"),
    ],
)
def test_axes_that_change_places_are_told(watch: Watch, change: Any, shape: tuple, sizes: str) -> None:
    (found,) = told(watch, change, *shape)
    assert (found["sizes"], found["from"]) == (sizes, "x".join(map(str, shape)))


@pytest.mark.parametrize(
    ("change", "shape"),
    [
        (lambda x: x.transpose(0, 1).reshape(32, 40), (10, 32, 4)),
        (lambda x: x.view(32, 10, 4, 16).transpose(1, 2).transpose(1, 2).reshape(32, 10, 64), (32, 10, 64)),
        (lambda x: x.view(320, 4).view(32, 10, 4), (32, 10, 4)),
        (lambda x: x.reshape(32, 3, 4, 8, 4, 8).permute(0, 2, 4, 1, 3, 5).reshape(32, 16, 192), (32, 3, 32, 32)),
    ],
)
def test_axes_that_are_split_merged_or_moved_are_not(watch: Watch, change: Any, shape: tuple) -> None:
    assert told(watch, change, *shape) == []


def test_compiled_code_may_reshape(watch: Watch) -> None:
    sink = watch()
    layer = nn.Linear(4, 4)
    compiled = torch.compile(lambda x: layer(x).view(10, 32, 4).reshape(-1), backend="eager", fullgraph=True)
    compiled(torch.ones(32, 10, 4)).sum().backward()
    assert sink.failures == []
