"""Divisions by zero while the data is prepared, before any network is called."""

from __future__ import annotations

import torch
from torch import nn

from .conftest import Watch


def _data(constant: bool) -> torch.Tensor:
    x = torch.randn(40, 5)
    if constant:
        x[:, 3] = 2.0
    return x


def test_a_column_of_one_value_is_told_with_its_line(watch: Watch) -> None:
    sink = watch()
    x = _data(constant=True)
    x = (x - x.mean(0)) / x.std(0)
    ((_, _, _, values, source),) = [event for event in sink.events if event[1] == "divided_by_zero"]
    assert (values["column"], values["zeros"], values["size"], values["nan"]) == (3, 1, 5, 40)
    assert values["constant"] is True
    assert "x.std(0)" in source.code
    assert bool(x[:, 3].isnan().all())


def test_scaling_in_place_with_kept_dimensions_is_told_too(watch: Watch) -> None:
    sink = watch()
    x = _data(constant=True)
    x -= x.mean(0, keepdim=True)
    x /= x.std(0, keepdim=True)
    assert [values["column"] for values in sink.kinds("divided_by_zero")] == [3]


def test_columns_that_vary_or_a_small_constant_in_the_divisor_are_not_told(watch: Watch) -> None:
    sink = watch()
    for x, eps in ((_data(constant=False), 0.0), (_data(constant=True), 1e-8)):
        x.sub(x.mean(0)) / (x.std(0) + eps)
    torch.ones(4) / torch.zeros(4)  # no statistic of many values
    assert sink.kinds("divided_by_zero") == []


def test_a_loop_without_modules_is_left_alone_from_its_first_backward_pass(watch: Watch) -> None:
    plain = torch.Tensor.__truediv__
    watch()
    weight = torch.ones(3, requires_grad=True)
    (weight / torch.ones(3)).sum().backward()
    assert torch.Tensor.__truediv__ is plain


def test_what_is_divided_once_a_network_was_called_is_left_alone(watch: Watch) -> None:
    plain = torch.Tensor.__truediv__
    sink = watch()
    assert torch.Tensor.__truediv__ is not plain
    nn.Linear(5, 2)(_data(constant=False))
    assert torch.Tensor.__truediv__ is plain
    x = _data(constant=True)
    (x - x.mean(0)) / x.std(0)
    assert sink.kinds("divided_by_zero") == []
