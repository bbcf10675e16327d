"""Several threads that call modules: only one is watched at a time, and none is harmed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from .recording import RecordingSink

Watch = Callable[..., RecordingSink]
LONG = 60.0


class Waits(nn.Module):
    """Goes on when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.may = threading.Event(), threading.Event()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.entered.set()
        assert self.may.wait(LONG)
        return x


class BeginsSlowly:
    """A sink's `forward` in which the first thread stays until it may go on."""

    def __init__(self, sink: RecordingSink) -> None:
        self.begun, self.may = threading.Event(), threading.Event()
        self._forward = sink.forward

    def __call__(self, network: str, training: bool) -> None:
        if not self.begun.is_set():
            self.begun.set()
            assert self.may.wait(LONG)
        self._forward(network, training)


def test_two_threads_that_begin_at_the_same_moment_do_not_break_each_other(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = watch()
    slowly = BeginsSlowly(sink)
    monkeypatch.setattr(sink, "forward", slowly)
    one, other = nn.Sequential(nn.Linear(2, 1), nn.ReLU()), nn.Sequential(nn.Linear(2, 2), Waits())
    x, got = torch.ones(3, 2), dict[str, Any]()

    def call(name: str, model: nn.Module) -> None:
        try:
            got[name] = model(x)
        except BaseException as error:  # what a user's thread would die of
            got[name] = error

    first = threading.Thread(target=call, args=("one", one))
    second = threading.Thread(target=call, args=("other", other))
    first.start()
    assert slowly.begun.wait(LONG)
    second.start()
    assert other[1].entered.wait(LONG)  # the second is inside while the first has only begun
    slowly.may.set()
    first.join(LONG)
    other[1].may.set()
    second.join(LONG)
    assert torch.equal(got["one"], one[1](one[0](x)))
    assert torch.equal(got["other"], other[0](x))
    assert sink.calls[:2] == ["forward model True", "forwarded model"]
    assert {seen.info.node for seen in sink.seen if seen.info.kind in ("output", "activation")} >= {"0", "1"}


class Guarded(nn.Parameter):
    """A parameter that notes which threads read its gradient."""

    readers: ClassVar[set[int]] = set()

    @property
    def grad(self) -> torch.Tensor | None:
        Guarded.readers.add(threading.get_ident())
        return torch.Tensor.grad.__get__(self)

    @grad.setter
    def grad(self, value: torch.Tensor | None) -> None:
        torch.Tensor.grad.__set__(self, value)


@pytest.mark.parametrize("optimizers", [True, False], ids=["optimizers", "by hand"])
def test_gradients_of_what_another_thread_trains_are_left_alone(watch: Watch, optimizers: bool) -> None:
    watch()
    mine, other = nn.Linear(2, 2), nn.Linear(2, 2)
    other.weight = Guarded(other.weight.detach().clone())
    Guarded.readers.clear()

    def step(model: nn.Module) -> None:
        if optimizers:
            made.setdefault(id(model), torch.optim.SGD(model.parameters(), 0.1)).zero_grad()
        model(torch.ones(4, 2)).square().mean().backward()
        if optimizers:
            made[id(model)].step()
        else:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * torch.ones_like(parameter)

    made: dict[int, torch.optim.Optimizer] = {}
    theirs = []

    def train() -> None:
        theirs.append(threading.get_ident())
        for _ in range(3):
            step(other)

    step(mine)
    thread = threading.Thread(target=train)
    thread.start()
    thread.join(LONG)
    for _ in range(3):
        step(mine)
    assert Guarded.readers == set(theirs)
