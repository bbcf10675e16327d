"""Gradients, products with Jacobians and mapped functions inside a training: the same bits, and no probe fails."""

from __future__ import annotations

from collections.abc import Callable

import mindspore as ms
import pytest
from mindspore import Tensor, nn, ops

from tests.mindspore.programs import PARAMETERS, STEPS, batches, new_net, watched

pytestmark = pytest.mark.timeout(1200)  # mapped functions are compiled


# functions of their own, not lambdas: the compiler reads the lines they stand on


def slope_of_inputs(net: nn.Cell, x: Tensor) -> Tensor:
    def total(x: Tensor) -> Tensor:
        return net(x).sum()

    return (ms.grad(total)(x) ** 2).mean()


def product_forward(net: nn.Cell, x: Tensor) -> Tensor:
    return (ms.jvp(net, x, ops.ones_like(x))[1] ** 2).mean()


def product_backward(net: nn.Cell, x: Tensor) -> Tensor:
    result, pull = ms.vjp(net, x)
    (slope,) = pull(ops.ones_like(result))
    return (slope**2).mean()


def slope_of_each_sample(net: nn.Cell, x: Tensor) -> Tensor:
    def total(row: Tensor) -> Tensor:
        return net(row.expand_dims(0)).sum()

    return (ms.vmap(ms.grad(total))(x) ** 2).mean()


def trained(penalty: Callable[[nn.Cell, Tensor], Tensor]) -> list[bytes]:
    """A training whose loss has a penalty that is itself a derivative."""
    net = new_net()
    update = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    compare = nn.MSELoss()

    def forward(x: Tensor, y: Tensor) -> Tensor:
        return compare(net(x), y) + penalty(net, x)

    gradient = ms.value_and_grad(forward, None, update.parameters)
    losses = []
    for x, y in batches():
        loss, found = gradient(x, y)
        update(found)
        losses.append(loss.asnumpy().tobytes())
    return losses


@pytest.mark.parametrize("penalty", [slope_of_inputs, product_forward, product_backward, slope_of_each_sample])
def test_a_penalty_that_is_a_derivative_leaves_steps_and_bits_as_they_are(
    penalty: Callable[[nn.Cell, Tensor], Tensor],
) -> None:
    plain = trained(penalty)
    answer, sink = watched(lambda: trained(penalty))  # which asserts that no probe has failed
    assert answer == plain
    assert len(sink.named("updated")) == len(sink.named("backward")) == len(sink.named("loss")) == STEPS
    assert list(sink.networks) == ["net"]
    assert {info.name for info, _ in sink.observed("gradient")} == set(PARAMETERS)
