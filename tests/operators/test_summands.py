"""Which summand of a loss went bad is said when the loss is a sum, and only then."""

from __future__ import annotations

import pytest
import torch

from tests.operators.look import look_at, loss_step

BAD = torch.tensor([0.0, 1.0])


def in_place(w):
    loss = w.sum()
    loss += torch.log(w).mean()
    loss += w.mean()
    return loss


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda w: (w * 2).sum() + 0.1 * -torch.log(w).mean(), "summand 2 of 2 (aten.mean"),
        (lambda w: sum([w.sum(), torch.log(w).sum(), w.mean()]) / 3, "summand 2 of 3 (aten.sum"),
        (lambda w: torch.stack([torch.log(w).mean(), w.mean()]).sum(), "summand 1 of 2 (aten.mean"),
        (in_place, "summand 2 of 3 (aten.mean"),
    ],
    ids=["weighted", "python sum", "stacked", "in place"],
)
def test_the_bad_summand_is_named(loss, said):
    assert look_at(loss_step(loss, BAD)).replay.facts["summand"].startswith(said)


@pytest.mark.parametrize("loss", [lambda w: torch.log(w).mean(), lambda w: torch.log(w).mean() * w.sum()])
def test_a_loss_that_is_no_sum_has_no_summand(loss):
    assert "summand" not in look_at(loss_step(loss, BAD)).replay.facts
