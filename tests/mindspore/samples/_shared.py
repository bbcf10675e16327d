"""What several samples need: a small network, its data, a folder of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import mindspore as ms
import mindspore.dataset as dataset
import numpy as np
from mindspore import nn


def folder() -> Path:
    return Path(tempfile.mkdtemp())


def small_net() -> nn.Cell:
    ms.set_seed(1)
    return nn.SequentialCell(nn.Dense(4, 8), nn.ReLU(), nn.Dense(8, 2))


def small_data(batches: int = 3) -> Any:
    random = np.random.RandomState(0)
    columns = (random.randn(8 * batches, 4).astype("f"), random.randint(0, 2, 8 * batches).astype(np.int32))
    return dataset.NumpySlicesDataset(columns, ["x", "y"], shuffle=False, num_parallel_workers=1).batch(8)


def model(net: nn.Cell, **more: Any) -> ms.Model:
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    return ms.Model(net, loss, nn.Momentum(net.trainable_params(), 0.01, 0.9), **more)
