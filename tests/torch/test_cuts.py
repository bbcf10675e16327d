"""Lines that make a loss anew from plain numbers, told where the loss that backward is called on has no graph."""

from __future__ import annotations

import torch
from torch import nn

from .conftest import Watch
from .recording import RecordingSink


def total(parts: list[torch.Tensor]) -> torch.Tensor:
    return torch.tensor(sum(part.item() for part in parts), requires_grad=True)


def whole(parts: list[torch.Tensor]) -> torch.Tensor:
    scale = torch.ones((), requires_grad=True)
    return scale * torch.stack(parts).sum()


def new_leaves(sink: RecordingSink) -> list[str]:
    return [event[4].code for event in sink.events if event[1] == "cut" and event[3]["function"] == "new_leaf"]


def test_the_line_that_makes_a_loss_anew_is_told_in_a_function_that_is_called(watch: Watch) -> None:
    sink = watch()
    out = nn.Linear(3, 1)(torch.rand(8, 3))
    total([out.mean(), out.abs().mean()]).backward()
    assert "return torch.tensor(sum(part.item() for part in parts), requires_grad=True)" in new_leaves(sink)


def test_a_loss_with_a_graph_has_no_such_line(watch: Watch) -> None:
    sink = watch()
    out = nn.Linear(3, 1)(torch.rand(8, 3))
    whole([out.mean(), out.abs().mean()]).backward()
    assert new_leaves(sink) == []
