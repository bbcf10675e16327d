"""Level op: what is known of each operator, and that a training under it stays bitwise the same."""

from __future__ import annotations

import torch
from torch import nn

from tensight.frameworks.torch.operators import Call, Operators
from tensight.frameworks.torch.operators_scope import Scope


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
