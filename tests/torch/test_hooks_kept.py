"""Hooks that one line registers on one object in every step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from .conftest import Watch


def look(*given: object) -> None:
    """A hook that does nothing."""


def told(watch: Watch, before: Callable[[nn.Module], object], after: Callable[[object], None], steps: int = 14) -> list:
    sink = watch()
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(steps):
        handle = before(net)
        loss = net(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after(handle)
    assert sink.failures == []
    return sink.kinds("hooks_kept")


@pytest.mark.parametrize(
    ("before", "module", "owner"),
    [
        (lambda net: net[0].register_forward_hook(look), "0", "Linear"),
        (lambda net: net[1].register_full_backward_hook(look), "1", "Linear"),
        (lambda net: net[0].weight.register_hook(look), None, "Parameter"),
    ],
    ids=["forward", "backward", "gradient"],
)
def test_a_hook_more_with_every_step_is_told_once(
    watch: Watch, before: Callable, module: str | None, owner: str
) -> None:
    (found,) = told(watch, before, lambda handle: None, steps=30)
    assert (found["module"], found["owner"], found["since"], found["alive"]) == (module, owner, 0, 10)


def test_hooks_that_are_removed_again_are_not_told(watch: Watch) -> None:
    assert told(watch, lambda net: net[0].register_forward_hook(look), lambda handle: handle.remove()) == []


def test_hooks_on_what_a_step_computes_are_not_told(watch: Watch) -> None:
    def before(net: nn.Module) -> object:
        fresh = torch.ones(3, requires_grad=True)
        fresh.register_hook(look)
        (fresh * 2).register_hook(look)
        return fresh

    assert told(watch, before, lambda handle: None) == []


def test_many_hooks_of_one_line_before_the_training_are_not_told(watch: Watch) -> None:
    def before(net: nn.Module) -> None:
        if not net[0]._forward_hooks:
            for _ in range(12):
                net[0].register_forward_hook(look)

    assert told(watch, before, lambda handle: None) == []
