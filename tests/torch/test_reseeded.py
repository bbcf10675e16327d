"""Seeds that a loop sets again in every step, and what is drawn after them."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from .conftest import Watch


def told(watch: Watch, draw: Callable[[int], torch.Tensor], steps: int = 16) -> list[dict]:
    sink = watch()
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(steps):
        loss = net(draw(step)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert sink.failures == []
    return sink.kinds("reseeded")


def by_torch(step: int) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.randn(8, 4)


def by_numpy(step: int) -> torch.Tensor:
    np.random.seed(3)
    return torch.tensor(np.random.rand(8, 4), dtype=torch.float32)


def by_random(step: int) -> torch.Tensor:
    random.seed(3)
    return torch.tensor([[random.random() for _ in range(4)] for _ in range(8)])


@pytest.mark.parametrize(("draw", "name"), [(by_torch, "torch"), (by_numpy, "numpy"), (by_random, "random")])
def test_a_seed_in_the_loop_is_told_once(watch: Watch, draw: Callable, name: str) -> None:
    (found,) = told(watch, draw)
    assert (found["generator"], found["seed"], found["steps"]) == (name, 3, 10)


def by_step(step: int) -> torch.Tensor:
    torch.manual_seed(step)
    return torch.randn(8, 4)


GIVEN = torch.randn(8, 4)


def not_drawn(step: int) -> torch.Tensor:
    torch.manual_seed(3)
    return GIVEN


def every_fifth(step: int) -> torch.Tensor:
    if step % 5 == 0:
        torch.manual_seed(3)
    return torch.randn(8, 4)


@pytest.mark.parametrize("draw", [by_step, not_drawn, every_fifth])
def test_another_seed_each_step_nothing_drawn_or_now_and_then_is_not_told(watch: Watch, draw: Callable) -> None:
    assert told(watch, draw) == []


def test_seeds_are_as_before_when_nobody_watches_any_more(watch: Watch) -> None:
    watch()
    torch.manual_seed(5)
    first = torch.rand(3), np.random.seed(5), np.random.rand(), random.seed(5), random.random()
    torch.manual_seed(5)
    again = torch.rand(3), np.random.seed(5), np.random.rand(), random.seed(5), random.random()
    assert torch.equal(first[0], again[0])
    assert first[1:] == again[1:]
