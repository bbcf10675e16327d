"""What the fault programs share: data, and the ways to train."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import mindspore as ms
import mindspore.dataset as dataset
import numpy as np
from mindspore import Tensor, nn


def classes(steps: int, *, features: int = 8, kinds: int = 4, size: int = 32, seed: int = 3) -> list[tuple[Any, Any]]:
    """Points around as many centres as there are classes; they can be told apart."""
    random = np.random.RandomState(seed)
    centres = random.randn(kinds, features) * 2
    found = []
    for _ in range(steps):
        label = random.randint(0, kinds, size)
        found.append(((centres[label] + random.randn(size, features)).astype("f") / 2, label.astype(np.int32)))
    return found


def values(steps: int, *, features: int = 6, size: int = 32, seed: int = 5) -> list[tuple[Any, Any]]:
    """A smooth function of the input."""
    random = np.random.RandomState(seed)
    found = []
    for _ in range(steps):
        x = random.randn(size, features).astype("f")
        y = (np.sin(x[:, :1]) + 0.5 * x[:, 1:2]).astype("f")
        found.append((x, y))
    return found


def by_functions(net: nn.Cell, forward: Callable[..., Tensor], update: nn.Cell, rows: list[tuple[Any, Any]]) -> None:
    """The functional loop, as MindSpore's own guide writes it."""
    gradient = ms.value_and_grad(forward, None, update.parameters)
    for x, y in rows:
        _, found = gradient(Tensor(x), Tensor(y))
        update(found)


def by_model(net: nn.Cell, loss: nn.Cell | None, update: nn.Cell, rows: list[tuple[Any, Any]]) -> None:
    """`Model.train` over a data set."""
    size = len(rows[0][0])
    columns = (np.concatenate([x for x, _ in rows]), np.concatenate([y for _, y in rows]))
    data = dataset.NumpySlicesDataset(columns, ["x", "y"], shuffle=False, num_parallel_workers=1).batch(size)
    ms.Model(net, loss, update).train(1, data, dataset_sink_mode=False)


def mlp(*sizes: int, act: type[nn.Cell] = nn.ReLU) -> nn.SequentialCell:
    layers: list[nn.Cell] = []
    for index, (fan_in, out) in enumerate(pairwise(sizes)):
        layers.append(nn.Dense(fan_in, out))
        if index < len(sizes) - 2:
            layers.append(act())
    return nn.SequentialCell(*layers)
