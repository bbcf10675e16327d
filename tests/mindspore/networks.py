"""LeNet, a small ResNet, an LSTM and a small transformer, and the two ways to train them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mindspore as ms
import mindspore.dataset as dataset
import numpy as np
from mindspore import Tensor, nn, ops

SIZE = 8
KINDS = 4


class LeNet(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(4, 8, 3, pad_mode="valid")
        self.pool = nn.MaxPool2d(2, 2)
        self.act = nn.ReLU()
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(32, 16)
        self.fc2 = nn.Dense(16, KINDS)

    def construct(self, x: Tensor) -> Tensor:
        x = self.pool(self.act(self.conv1(x)))
        x = self.pool(self.act(self.conv2(x)))
        return self.fc2(self.act(self.fc1(self.flatten(x))))


class Residual(nn.Cell):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3)
        self.norm2 = nn.BatchNorm2d(width)
        self.act = nn.ReLU()

    def construct(self, x: Tensor) -> Tensor:
        return self.act(x + self.norm2(self.conv2(self.act(self.norm1(self.conv1(x))))))


class ResNet(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, stride=2)
        self.block1 = Residual(4)
        self.block2 = Residual(4)
        self.head = nn.Dense(4, KINDS)

    def construct(self, x: Tensor) -> Tensor:
        x = self.block2(self.block1(self.stem(x)))
        return self.head(x.mean((2, 3)))


class Lstm(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.cell = nn.LSTMCell(8, 8)
        self.head = nn.Dense(8, KINDS)

    def construct(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        held = ops.zeros((x.shape[0], 8), ms.float32)
        carried = ops.zeros((x.shape[0], 8), ms.float32)
        for index in range(4):
            held, carried = self.cell(x[:, index], (held, carried))
        return self.head(held)


class Block(nn.Cell):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm((width,))
        self.norm2 = nn.LayerNorm((width,))
        self.qkv = nn.Dense(width, 3 * width)
        self.out = nn.Dense(width, width)
        self.up = nn.Dense(width, 2 * width)
        self.act = nn.ReLU()
        self.down = nn.Dense(2 * width, width)

    def construct(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(b, t, 3, self.heads, c // self.heads)
        q, k, v = qkv[:, :, 0].swapaxes(1, 2), qkv[:, :, 1].swapaxes(1, 2), qkv[:, :, 2].swapaxes(1, 2)
        score = ops.softmax(ops.matmul(q, k.swapaxes(2, 3)) / 4.0, -1)
        mixed = ops.matmul(score, v).swapaxes(1, 2).reshape(b, t, c)
        x = x + self.out(mixed)
        return x + self.down(self.act(self.up(self.norm2(x))))


class Transformer(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.block1 = Block(16, 2)
        self.head = nn.Dense(16, KINDS)

    def construct(self, tokens: Tensor) -> Tensor:
        return self.head(self.block1(self.embed(tokens)).mean(1))


NETWORKS: dict[str, type[nn.Cell]] = {"lenet": LeNet, "resnet": ResNet, "lstm": Lstm, "transformer": Transformer}


class Way(NamedTuple):
    network: str
    mode: str  # 'pynative' or 'graph'
    loop: str  # 'functional' or 'model'


def rows(name: str, steps: int) -> list[tuple[Any, Any]]:
    random = np.random.RandomState(7)
    found = []
    for _ in range(steps):
        if name in ("lenet", "resnet"):
            x = random.randn(SIZE, 1, 16, 16).astype("f")
        else:
            x = random.randint(0, 20, (SIZE, 4)).astype(np.int32)
        found.append((x, random.randint(0, KINDS, SIZE).astype(np.int32)))
    return found


def run(
    way: Way,
    steps: int = 3,
    *,
    rate: float = 0.05,
    change: Callable[[nn.Cell], None] = lambda net: None,
    feed: Callable[[int, Any], Any] = lambda step, x: x,
    momentum: float = 0.9,
) -> list[bytes]:
    """Train, and answer the losses to the last bit. `change` is made to the network before, `feed` to its inputs."""
    ms.set_seed(1)
    ms.set_context(mode=ms.GRAPH_MODE if way.mode == "graph" else ms.PYNATIVE_MODE)
    try:
        net = NETWORKS[way.network]()
        change(net)
        net.set_train()
        batches = [(feed(step, x), y) for step, (x, y) in enumerate(rows(way.network, steps))]
        update = nn.Momentum(net.trainable_params(), rate, momentum)
        return (by_functions if way.loop == "functional" else by_model)(net, update, batches)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def by_functions(net: nn.Cell, update: nn.Cell, batches: list[tuple[Any, Any]]) -> list[bytes]:
    compare = nn.CrossEntropyLoss()

    def forward(x: Tensor, y: Tensor) -> Tensor:
        return compare(net(x), y)

    gradient = ms.value_and_grad(forward, None, update.parameters)
    losses = []
    for x, y in batches:
        loss, found = gradient(Tensor(x), Tensor(y))
        update(found)
        losses.append(loss.asnumpy().tobytes())
    return losses


def by_model(net: nn.Cell, update: nn.Cell, batches: list[tuple[Any, Any]]) -> list[bytes]:
    losses: list[bytes] = []

    class Keep(ms.Callback):
        def on_train_step_end(self, run_context: Any) -> None:
            losses.append(run_context.original_args().net_outputs.asnumpy().tobytes())

    columns = (np.concatenate([x for x, _ in batches]), np.concatenate([y for _, y in batches]))
    data = dataset.NumpySlicesDataset(columns, ["x", "y"], shuffle=False, num_parallel_workers=1).batch(SIZE)
    ms.Model(net, nn.CrossEntropyLoss(), update).train(1, data, callbacks=[Keep()], dataset_sink_mode=False)
    return losses
