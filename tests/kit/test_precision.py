"""Loss scale by its rules, and operators in low precision."""

from __future__ import annotations

from typing import Any

import mindspore
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tensight.errors import TensightError, UsageError
from tensight.kit import (
    DynamicLossScaleManager,
    FixedLossScaleManager,
    float16_on_ascend,
    low_precision,
    scale_one_test,
)
from tensight.kit.backend import backend_of
from tensight.kit.loss_scale import MOST_OVERFLOWS
from tests.kit.nets import FRAMEWORKS, training

calm = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck), max_examples=50
)


@calm
@given(pattern=st.lists(st.booleans(), max_size=60), window=st.integers(1, 6))
def test_a_dynamic_scale_equals_mindspores(pattern: list[bool], window: int) -> None:
    ours = DynamicLossScaleManager(4, 2, window)
    theirs = mindspore.DynamicLossScaleManager(4, 2, window)
    for overflow in pattern:
        theirs.update_loss_scale(overflow)
        assert ours.update(overflow) == theirs.get_loss_scale()


def test_overflows_without_an_end_become_an_error() -> None:
    scale = FixedLossScaleManager(2)
    for _ in range(MOST_OVERFLOWS):
        scale.update(True)
    with pytest.raises(TensightError, match="overflowed in 1001 steps in a row"):
        scale.update(True)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: FixedLossScaleManager(0), "a number from 1 on"),
        (lambda: DynamicLossScaleManager(scale_factor=1), "above 1"),
        (lambda: DynamicLossScaleManager(scale_window=0), "from 1 on"),
    ],
)
def test_wrong_settings_get_one_sentence(call: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        call()


def half(framework: str) -> Any:
    made = training(framework)
    if framework == "torch":
        made.network.half()
        made.data = [(x.half(), y) for x, y in made.data]
    else:
        made.network.to_float(mindspore.float16)
    return made


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_operators_in_low_precision_are_listed_with_their_module(framework: str) -> None:
    made = half(framework)
    x, y = made.data[0]
    rows = low_precision(made.network, lambda: made.loss_fn(made.network(x), y))
    assert {row.module for row in rows} >= {"first", "act", "second"}
    assert {row.dtype for row in rows} == {"float16"}
    assert not [row for row in rows if row.module == "first" and row.risk]
    if framework == "torch":
        assert "float32" in next(row for row in rows if "softmax" in row.name).risk


def test_a_loss_that_is_computed_in_half_precision_is_told_to_be_kept_in_float32() -> None:
    made = half("torch")
    x, y = made.data[0]
    network, loss_fn = made.network, made.loss_fn
    rows = [row for row in low_precision(network, lambda: loss_fn(network(x), y)) if "loss" in row.name]
    assert rows
    assert all("keep it in float32" in row.risk for row in rows)
    kept = low_precision(network, lambda: loss_fn(network(x).float(), y))
    assert not [row for row in kept if "loss" in row.name]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_in_float32_nothing_is_listed(framework: str) -> None:
    made = training(framework)
    assert low_precision(made.network, lambda: made.network(made.data[0][0])) == []


def test_operators_that_ascend_has_in_float16_alone_are_known_before_one_is_at_hand() -> None:
    made = training("mindspore")
    assert float16_on_ascend(made.network, lambda: made.network(made.data[0][0])) == ["MatMul"]


class Exploding(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.line = torch.nn.Linear(4, 3)
        self.factor = factor

    def forward(self, x: Any) -> Any:
        return torch.exp(self.line(x).abs() * self.factor)


class ExplodingCell(mindspore.nn.Cell):
    """The same in MindSpore, with the weights of the other."""

    def __init__(self, like: Exploding) -> None:
        super().__init__()
        weight, bias = (mindspore.Tensor(value.detach().numpy().copy()) for value in like.line.parameters())
        self.line = mindspore.nn.Dense(4, 3, weight, bias)
        self.factor = like.factor

    def construct(self, x: Any) -> Any:
        return mindspore.ops.exp(mindspore.ops.abs(self.line(x)) * self.factor)


def scaled(framework: str, factor: float, scale: float) -> Any:
    torch.manual_seed(0)
    net: Any = Exploding(factor)
    batch: Any = (np.ones((2, 4), "f"), np.ones((2, 3), "f"))
    optimizer: Any
    if framework == "torch":
        loss_fn: Any = torch.nn.MSELoss()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        batch = tuple(map(torch.from_numpy, batch))
    else:
        net, loss_fn = ExplodingCell(net), mindspore.nn.MSELoss()
        optimizer = mindspore.nn.SGD(net.trainable_params(), 0.1)
        batch = tuple(map(mindspore.Tensor, batch))
    backend = backend_of(net)
    before = backend.state(net)
    found = scale_one_test(net, loss_fn, optimizer, batch, scale)
    for name, value in backend.state(net).items():
        np.testing.assert_array_equal(value, before[name])
    assert backend.rate(optimizer) == pytest.approx(0.1)
    return found


both = pytest.mark.parametrize("framework", FRAMEWORKS)


@both
def test_with_a_scale_of_one_the_operator_is_named(framework: str) -> None:
    found = scaled(framework, 1000.0, 65536.0)
    assert (found.overflow_scaled, found.overflow_unscaled) == (True, True)
    assert found.first.name.lower().rpartition(".")[2] == "exp"
    assert "test_precision.py" in found.first.place
    assert f"an operator overflows: {found.first.name} in" in found.verdict


@both
def test_only_the_scale_overflows(framework: str) -> None:
    found = scaled(framework, 3.0, 3e38)
    assert (found.overflow_scaled, found.overflow_unscaled) == (True, False)
    assert "lower it" in found.verdict


@both
def test_nothing_overflows(framework: str) -> None:
    assert scaled(framework, 1.0, 1024.0).verdict == "nothing overflows, neither with a scale of 1024 nor of 1"


def test_scale_one_on_mindspore_leaves_the_weights() -> None:
    made = training("mindspore")
    before = {name: value.asnumpy().copy() for name, value in made.network.parameters_and_names()}
    x, y = made.data[0]
    found = scale_one_test(made.network, made.loss_fn, made.optimizer, (x * float("inf"), y))
    assert found.overflow_unscaled
    for name, value in made.network.parameters_and_names():
        np.testing.assert_array_equal(value.asnumpy(), before[name])
