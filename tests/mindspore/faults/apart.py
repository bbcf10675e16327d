"""What does not belong together: labels that are of other samples, an optimizer that was given the head alone."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from mindspore.amp import DynamicLossScaler, all_finite

from tests.mindspore.faults.training import by_functions, by_model, classes, mlp, values


def rows_of(bad: bool, steps: int = 110) -> list[tuple[Any, Any]]:
    """Batches whose labels are drawn anew for all samples together, where they are to be bad."""
    rows = classes(steps)
    labels = np.concatenate([y for _, y in rows])
    if bad:
        labels = np.random.RandomState(2).permutation(labels)
    size = len(rows[0][1])
    return [(x, labels[at * size : (at + 1) * size]) for at, (x, _) in enumerate(rows)]


def labels_of_others(bad: bool) -> None:
    ms.set_seed(1)
    net = mlp(8, 16, 4)
    net.set_train()
    compare = nn.CrossEntropyLoss()

    def forward(x: Tensor, y: Tensor) -> Tensor:
        return compare(net(x), y)

    by_functions(net, forward, nn.Adam(net.trainable_params(), 3e-3), rows_of(bad))


def labels_of_others_in_a_graph(bad: bool) -> None:
    """What the loss is given is only seen where a copy of the process looks inside."""
    ms.set_seed(1)
    net = mlp(8, 16, 4)
    by_model(net, nn.CrossEntropyLoss(), nn.Adam(net.trainable_params(), 3e-3), rows_of(bad, 150))


def head_alone_in_a_graph(bad: bool) -> None:
    """Waves, which random layers do not take apart: hardly anything is learnt by the last one alone."""
    ms.set_seed(1)
    features, head = mlp(2, 64, 64), nn.Dense(64, 2)
    net = nn.SequentialCell(features, nn.ReLU(), head)
    random = np.random.RandomState(4)
    rows = []
    for _ in range(80):
        x = random.randn(64, 2).astype("f")
        rows.append((x, (np.sin(4 * x[:, 0]) * np.cos(4 * x[:, 1]) > 0).astype(np.int32)))
    update = nn.Adam((head if bad else net).trainable_params(), 1e-2)
    by_model(net, nn.CrossEntropyLoss(), update, rows)


def scale_that_stays(bad: bool) -> None:
    """The scale of the loss is divided out again by the scaler, by hand or in place; or it is forgotten."""
    ms.set_seed(1)
    net = mlp(6, 16, 1)
    net.set_train()
    compare = nn.MSELoss()
    update = nn.SGD(net.trainable_params(), 0.02)
    scaler = DynamicLossScaler(512.0, 2, 200)

    def forward(x: Tensor, y: Tensor) -> Tensor:
        return scaler.scale(compare(net(x), y))

    gradient = ms.value_and_grad(forward, None, update.parameters)
    for step, (x, y) in enumerate(values(12)):
        _, found = gradient(Tensor(x), Tensor(y))
        finite = all_finite(found)
        if not bad and step % 3 == 0:
            found = scaler.unscale(found)
        elif not bad and step % 3 == 1:
            found = tuple(one / scaler.scale_value for one in found)
        elif not bad:
            found = tuple(one.mul_(1 / 512) for one in found)
        if finite:
            update(found)
        scaler.adjust(finite)
