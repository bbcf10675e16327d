"""torch.func inside a training: its tensors are stand-ins without values, which no probe may ask for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, jacrev, jvp, linearize, vmap

from tensight.frameworks.torch import statistics
from tensight.frameworks.torch.adapter import TorchAdapter
from tensight.frameworks.torch.statistics import CannotJudge
from tests.torch.recording import RecordingSink

Transform = Callable[[nn.Module, torch.Tensor, torch.Tensor], object]


def loss_of(net: nn.Module, given: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.mse_loss(functional_call(net, given, (x,)), y)


def gradients(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> object:
    return grad(lambda given: loss_of(net, given, x, y))(dict(net.named_parameters()))


def gradients_of_each_sample(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> object:
    given = dict(net.named_parameters())
    return vmap(grad(lambda x, y: loss_of(net, given, x, y)))(x[:, None], y[:, None])


def forward_mode(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> object:
    return jvp(lambda x: net(x), (x,), (torch.ones_like(x),))


def jacobian(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> object:
    return jacrev(lambda x: net(x).sum())(x)


def linearized(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> object:
    return linearize(lambda x: net(x), x)[1](x)


def train(transform: Transform) -> list[torch.Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    results = []
    for _ in range(2):
        x = torch.randn(16, 4)
        found = transform(net, x, x[:, :1])
        results += [one.detach() for one in torch.utils._pytree.tree_leaves(found) if isinstance(one, torch.Tensor)]
        loss = nn.functional.mse_loss(net(x), x[:, :1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results.append(loss.detach())
    return [*results, *(parameter.detach().clone() for parameter in net.parameters())]


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node", "ignore:.torch.jit.script. is deprecated")
@pytest.mark.parametrize("level", ["watch", "op"])
@pytest.mark.parametrize("transform", [gradients, gradients_of_each_sample, forward_mode, jacobian, linearized])
def test_a_transform_runs_as_without_us_and_no_probe_fails(transform: Transform, level: str) -> None:
    expected = train(transform)
    adapter, sink = TorchAdapter(), RecordingSink(level=level)
    sink.tap = None  # type: ignore[attr-defined]
    adapter.attach(sink)
    try:
        found = train(transform)
    finally:
        adapter.detach()
    assert sink.failures == []
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert len(sink.losses) == 2


def test_zeros_that_are_not_written_down_are_zeros() -> None:
    stats = statistics.one(torch._efficientzerotensor((2, 3)))
    assert (stats.count, stats.zero, stats.max) == (6, 6, 0.0)


def test_a_tensor_whose_memory_was_given_back_has_no_value() -> None:
    tensor = torch.randn(8)
    tensor.untyped_storage().resize_(0)
    with pytest.raises(CannotJudge):
        statistics.one(tensor)
