"""Level op: what is known of each operator, and that a training under it stays bitwise the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import tensight
from tensight.frameworks.torch.operators import Call, Operators
from tensight.frameworks.torch.operators_level import OperatorLevel
from tensight.frameworks.torch.operators_scope import Scope
from tensight.store import Reader


class Calls:
    """Keeps every call."""

    lines = True

    def __init__(self) -> None:
        self.seen: list[Call] = []

    def before(self, call: Call) -> None:
        self.seen.append(call)

    def after(self, call: Call, kept: None) -> None:
        """Results are of no interest here."""


class Failing(Calls):
    def after(self, call: Call, kept: None) -> None:
        raise ValueError("the observer fails")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.sigmoid(self.first(x)))


def trained(observer: Calls | None) -> tuple[list[torch.Tensor], list[str]]:
    """The weights after three steps, and what went wrong on the way."""
    torch.manual_seed(1)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    problems: list[str] = []
    scope = Scope()
    mode = Operators(observer, scope, lambda where, error: problems.append(str(error))) if observer else None
    if mode is not None:
        scope.attach()
        mode.__enter__()
    try:
        for _ in range(3):
            loss = nn.functional.dropout(net(torch.randn(5, 4)), 0.5).pow(2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    finally:
        if mode is not None:
            mode.__exit__(None, None, None)
            scope.detach()
    return [p.detach().clone() for p in net.parameters()], problems


def test_a_training_under_observation_is_bitwise_the_same():
    plain, _ = trained(None)
    seen, problems = trained(Calls())
    assert problems == []
    assert all(torch.equal(a, b) for a, b in zip(plain, seen))


def test_an_observer_that_fails_changes_nothing():
    plain, _ = trained(None)
    seen, problems = trained(Failing())
    assert set(problems) == {"the observer fails"}
    assert all(torch.equal(a, b) for a, b in zip(plain, seen))


def test_each_operator_knows_module_phase_line_and_its_forward_operator():
    observer = Calls()
    trained(observer)
    by_name = {(call.name, call.phase, call.module): call for call in observer.seen}
    sigmoid = by_name["aten.sigmoid", "forward", ""]
    assert sigmoid.source.code == "return self.second(torch.sigmoid(self.first(x)))"
    backward = by_name["aten.sigmoid_backward", "backward", ""]
    assert (backward.forward.name, backward.node) == ("aten.sigmoid", "SigmoidBackward0")
    weights = [call for call in observer.seen if call.name == "aten.mm" and call.phase == "backward"]
    assert {call.module for call in weights} == {"first", "second"}
    assert {call.forward.name for call in weights} == {"aten.addmm"}
    updates = [call for call in observer.seen if call.phase == "update"]
    assert updates
    assert {call.source.code for call in updates} == {"optimizer.step()"}


class Checkpointed(nn.Module):
    """Calls a part again in its backward, and ends in operators without a module."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.net = Net()
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.scale * x
        again = torch.utils.checkpoint.checkpoint(self.net, x, use_reentrant=True)
        return self.drop(again).relu_() + again.mul(2).add_(1).T.reshape(-1, 2)


def recorded(folder: Path) -> tuple[list[object], list[object]]:
    """The operators of three steps as they were recorded: what they are, and what was seen of them."""
    torch.manual_seed(2)
    net = Checkpointed()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    batches = [torch.randn(4, 4) for _ in range(3)]
    with tensight.watch(net, optimizer, level="op", budget=100, run_dir=folder, quiet=True):
        for batch in batches:
            net(batch).pow(2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    reader = Reader(folder)
    assert not reader.end.lost
    infos = [info for info in reader.tensors.values() if info.kind.startswith("operator")]
    known = {info.id for info in infos}
    seen = [one for step in reader.steps.numbers for one in reader.steps.at(step).observations if one.tensor in known]
    return infos, seen


def test_operators_that_are_only_heard_of_are_recorded_like_those_that_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = recorded(tmp_path / "heard")
    monkeypatch.setattr(OperatorLevel, "wants_calls", True)
    shown = recorded(tmp_path / "shown")
    assert {info.phase for info in heard[0]} >= {"forward", "backward", "update"}
    assert {info.source is None for info in heard[0]} == {False}
    assert len(heard[1]) > 100
    assert heard == shown


def test_the_first_operator_of_a_step_is_what_its_backward_goes_back_to(tmp_path: Path) -> None:
    infos, _ = recorded(tmp_path / "run")
    by_id = {info.id: info for info in infos}
    first = next(info for info in infos if info.op == "aten.mul" and info.phase == "forward")
    assert first.source.code == "x = self.scale * x"
    back = [info for info in infos if info.forward == first.id]
    assert back
    assert {(info.phase, info.type, info.source.code) for info in back} == {("backward", "aten.mul", first.source.code)}
    assert all(by_id[info.forward].phase == "forward" for info in infos if info.forward is not None)
