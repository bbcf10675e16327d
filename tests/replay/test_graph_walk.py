"""Where no copy may run: the first bad operator is read from what autograd has saved."""

from __future__ import annotations

import pytest
import torch

from tensight.diagnosis.reasons import explain
from tensight.frameworks.torch.graph_walk import walk


@pytest.mark.parametrize(
    ("loss", "operator", "fault"),
    [
        (lambda x: torch.log(x * 1).sum(), "aten.log", "log_of_zero"),
        (lambda x: (1 + torch.log(x * 2)).exp().sum() * torch.log(x).mean(), "aten.log", "log_of_zero"),
        (lambda x: (x.sum() / (x * 1)).mean(), "aten.div", "division_by_zero"),
        (lambda x: ((x * 1) ** -2).sum(), "aten.pow", "division_by_zero"),
        (lambda x: torch.acos(x + 2).sum(), "aten.acos", "acos_out_of_range"),
    ],
)
def test_the_first_bad_operator_of_a_bad_loss_is_found(loss, operator, fault):
    seen = walk(loss(torch.tensor([0.0, 1.0, 4.0], requires_grad=True)))
    assert seen.replay.operator == operator
    assert explain(seen.replay).fault == fault
    assert "input.0" in seen.values


def test_a_good_loss_has_no_bad_operator():
    assert walk(torch.log(torch.tensor([1.0, 2.0], requires_grad=True) * 1).sum()) is None
