"""A step that only infers, looked at again: what its networks answer is what bad values must reach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from tensight.frameworks.torch.replay_look import TorchLook


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.key = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, open_: torch.Tensor) -> torch.Tensor:
        score = (x @ self.key(x).T).masked_fill(~open_, float("-inf"))
        return torch.softmax(score, -1) @ x


@contextmanager
def looking() -> Iterator[TorchLook]:
    def failed(where: str, error: BaseException) -> None:
        raise AssertionError(where) from error

    look = TorchLook(failed)
    try:
        look.step_over(7)
        yield look
    finally:
        look.stop()


def operator(look: TorchLook) -> str:
    seen = look.seen(7, final=False)
    return "" if seen is None else seen.replay.operator


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_an_overflow_that_becomes_nan_in_the_answer_is_named_where_it_began(mode: type) -> None:
    net = Attention().half()
    with looking() as look, mode():
        net(torch.full((3, 4), 3e4, dtype=torch.float16), torch.ones(3, 3, dtype=torch.bool))
        assert operator(look) in ("aten.matmul", "aten.mm", "aten.addmm", "aten.linear")


def test_a_row_that_is_masked_whole_is_named_and_one_that_is_open_is_not() -> None:
    net = Attention()
    every = torch.ones(3, 3, dtype=torch.bool)
    with looking() as look, torch.no_grad():
        net(torch.ones(3, 4), every.tril())
        assert operator(look) == ""
        every[1] = False
        net(torch.ones(3, 4), every)
        assert "softmax" in operator(look)


def test_minus_infinity_in_the_answer_is_no_trouble() -> None:
    class Scores(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.log()

    with looking() as look, torch.no_grad():
        Scores()(torch.zeros(3))
        assert operator(look) == ""
