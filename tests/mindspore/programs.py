"""Small MindSpore trainings, written in the ways users write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mindspore as ms
import mindspore.dataset as dataset
import numpy as np
from mindspore import Tensor, nn, ops

from tensight.frameworks.mindspore.adapter import MindSporeAdapter
from tensight.testing.fakes import RecordingSink

STEPS = 3
PARAMETERS = ["first.weight", "first.bias", "second.weight", "second.bias"]
Losses = list[float]


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(4, 8)
        self.act = nn.Tanh()
        self.second = nn.Dense(8, 2)

    def construct(self, x: Tensor) -> Tensor:
        return self.second(self.act(self.first(x)))


def new_net(make: Callable[[], nn.Cell] = Net) -> nn.Cell:
    ms.set_seed(1)
    net = make()
    net.set_train()
    return net


def batches(steps: int = STEPS) -> Iterator[tuple[Tensor, Tensor]]:
    random = np.random.RandomState(7)
    for _ in range(steps):
        yield Tensor(random.randn(8, 4).astype("f")), Tensor(random.randn(8, 2).astype("f"))


def number(loss: Tensor) -> float:
    return float(loss.asnumpy())


def watched(program: Callable[[], Any]) -> tuple[Any, RecordingSink]:
    """What a program answers under the adapter, and what the adapter said."""
    sink = RecordingSink()
    adapter = MindSporeAdapter()
    adapter.attach(sink)
    try:
        answer = program()
    finally:
        adapter.detach()
    assert sink.failures == []
    return answer, sink


def by_functions(
    make: Callable[[], nn.Cell] = Net,
    rule: Callable[[Any], nn.Cell] = lambda parameters: nn.Momentum(parameters, 0.1, 0.9),
    criterion: nn.Cell | None = None,
    between: Callable[[nn.Cell, int], None] = lambda net, step: None,
) -> Losses:
    """`value_and_grad` and an optimizer that is called."""
    net = new_net(make)
    update = rule(net.trainable_params())
    compare = criterion or nn.MSELoss()

    def forward(x: Tensor, y: Tensor) -> Tensor:
        return compare(net(x), y)

    gradient = ms.value_and_grad(forward, None, update.parameters)
    losses = []
    for step, (x, y) in enumerate(batches()):
        between(net, step)
        loss, found = gradient(x, y)
        update(found)
        losses.append(number(loss))
    return losses


def by_one_step_cell() -> Losses:
    """`TrainOneStepCell` around `WithLossCell`."""
    net = new_net()
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9))
    cell.set_train()
    return [number(cell(x, y)) for x, y in batches()]


def by_model() -> Losses:
    """`Model.train`, then `Model.eval`, whose loss comes last."""
    net = new_net()
    random = np.random.RandomState(7)
    rows = (random.randn(8 * STEPS, 4).astype("f"), random.randn(8 * STEPS, 2).astype("f"))
    data = dataset.NumpySlicesDataset(rows, ["x", "y"], shuffle=False, num_parallel_workers=1).batch(8)
    losses: Losses = []

    class Keep(ms.Callback):
        def on_train_step_end(self, run_context: Any) -> None:
            losses.append(number(run_context.original_args().net_outputs))

    model = ms.Model(net, nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.1, 0.9), metrics={"loss"})
    model.train(1, data, callbacks=[Keep()], dataset_sink_mode=False)
    return [*losses, model.eval(data, dataset_sink_mode=False)["loss"]]


def by_jit() -> Losses:
    """A whole step, optimizer and all, under `jit`."""
    net = new_net()
    update = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    compare = nn.MSELoss()

    def forward(x: Tensor, y: Tensor) -> Tensor:
        return compare(net(x), y)

    gradient = ms.value_and_grad(forward, None, update.parameters)

    @ms.jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss, found = gradient(x, y)
        return ops.depend(loss, update(found))

    return [number(step(x, y)) for x, y in batches()]
