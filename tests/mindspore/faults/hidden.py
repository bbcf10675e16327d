"""Faults that no number shows: layers that a network does not know of, a mask that shuts nothing, sorted data."""

from __future__ import annotations

import math

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from tests.mindspore.faults.training import by_functions, by_model, classes, mlp


class Residual(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm((16,))
        self.inner = nn.Dense(16, 16)

    def construct(self, x: Tensor) -> Tensor:
        return x + ops.tanh(self.inner(self.norm(x)))


class Tower(nn.Cell):
    """Blocks in a plain list are not among the network's parameters."""

    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.first = nn.Dense(8, 16)
        blocks = [Residual(), Residual()]
        self.blocks = blocks if bad else nn.CellList(blocks)
        self.head = nn.Dense(16, 4)

    def construct(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def layers_in_a_list(bad: bool) -> None:
    ms.set_seed(1)
    net = Tower(bad)
    net.set_train()
    compare = nn.CrossEntropyLoss()
    by_functions(net, lambda x, y: compare(net(x), y), nn.Adam(net.trainable_params(), 3e-3), classes(12))


class Masked(nn.Cell):
    """Attention over padded text; the mask is 1 where there is text."""

    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.query, self.key, self.value = nn.Dense(16, 16), nn.Dense(16, 16), nn.Dense(16, 16)
        self.head = nn.Dense(16, 3)
        self.added = bad

    def construct(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        score = ops.matmul(self.query(x), self.key(x).swapaxes(1, 2))
        mask = (tokens != 0).astype(ms.float32).expand_dims(1)
        score = score + (mask if self.added else (1 - mask) * -1e9)
        return self.head(ops.matmul(ops.softmax(score / math.sqrt(16), axis=-1), self.value(x)).mean(1))


def mask_of_ones(bad: bool) -> None:
    ms.set_seed(1)
    net = Masked(bad)
    net.set_train()
    random = np.random.RandomState(6)
    rows = []
    for _ in range(12):
        label = random.randint(0, 3, 16)
        tokens = label[:, None] * 9 + random.randint(1, 10, (16, 8))
        for row, length in enumerate(random.randint(3, 8, 16)):
            tokens[row, length:] = 0
        rows.append((tokens.astype(np.int32), label.astype(np.int32)))
    compare = nn.CrossEntropyLoss()
    by_functions(net, lambda x, y: compare(net(x), y), nn.Adam(net.trainable_params(), 3e-3), rows)


class Probabilities(nn.Cell):
    """Log-probabilities by hand."""

    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Dense(8, 16), nn.Dense(16, 4)
        self.axis = 0 if bad else -1

    def construct(self, x: Tensor) -> Tensor:
        return ops.log_softmax(self.last(ops.tanh(self.first(x))), self.axis)


def axis_of_the_batch_under_jit(bad: bool) -> None:
    """A whole step under jit: no cell of it is ever called from Python."""
    ms.set_seed(1)
    net = Probabilities(bad)
    net.set_train()
    compare = nn.NLLLoss()
    update = nn.Adam(net.trainable_params(), 3e-3)

    def forward(x: Tensor, y: Tensor) -> Tensor:
        return compare(net(x), y)

    gradient = ms.value_and_grad(forward, None, update.parameters)

    @ms.jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss, found = gradient(x, y)
        return ops.depend(loss, update(found))

    for x, y in classes(12):
        step(Tensor(x), Tensor(y))


def sorted_labels_in_a_graph(bad: bool) -> None:
    """Data that lies sorted by class and is not shuffled."""
    ms.set_seed(1)
    net = mlp(8, 16, 4)
    rows = classes(20)
    x, y = np.concatenate([x for x, _ in rows]), np.concatenate([y for _, y in rows])
    order = np.argsort(y, kind="stable") if bad else np.arange(len(y))
    size = len(rows[0][0])
    batches = [(x[order[at : at + size]], y[order[at : at + size]]) for at in range(0, len(y), size)]
    by_model(net, nn.CrossEntropyLoss(), nn.Adam(net.trainable_params(), 3e-3), batches)
