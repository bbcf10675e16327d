"""More trainings with one fault each, written before the rules were looked at; `bad=False` is the same without it."""

from __future__ import annotations

import math

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.common.initializer import Normal

from tests.mindspore.faults.training import by_functions, by_model, classes, mlp, values


def replaced_head(bad: bool) -> None:
    """Transfer learning: the head is replaced for a new task, before or after the optimizer was made."""
    ms.set_seed(1)
    net = mlp(8, 32, 10)
    update = nn.Momentum(net.trainable_params(), 0.05, 0.9)
    net[2] = nn.Dense(32, 4)
    if not bad:
        update = nn.Momentum(net.trainable_params(), 0.05, 0.9)
    net.set_train()
    compare = nn.CrossEntropyLoss()
    by_functions(net, lambda x, y: compare(net(x), y), update, classes(12))


class Forecast(nn.Cell):
    """An LSTM that forecasts the next value of a series."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(1, 8, batch_first=True)
        self.head = nn.Dense(8, 1)

    def construct(self, x: Tensor) -> Tensor:
        hidden, _ = self.rnn(x)
        return self.head(hidden[:, -1])


def broadcast_by_hand(bad: bool) -> None:
    ms.set_seed(1)
    net = Forecast()
    net.set_train()
    random = np.random.RandomState(2)
    rows = []
    for _ in range(12):
        wave = np.sin(random.rand(24, 1) * 6 + np.arange(7) * 0.3).astype("f")
        rows.append((wave[:, :6, None], wave[:, 6] if bad else wave[:, 6:]))

    def forward(x: Tensor, y: Tensor) -> Tensor:
        predicted = net(x)
        return ((predicted - y) ** 2).mean()

    by_functions(net, forward, nn.Adam(net.trainable_params(), 5e-3), rows)


class TwoParts(nn.Cell):
    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.encoder = mlp(8, 24, 16, act=nn.Tanh)
        self.head = mlp(16, 16, 4, act=nn.Tanh)
        self.cut = bad

    def construct(self, x: Tensor) -> Tensor:
        code = self.encoder(x)
        if self.cut:
            code = ops.stop_gradient(code)
        return self.head(code)


def cut_encoder(bad: bool) -> None:
    ms.set_seed(1)
    net = TwoParts(bad)
    net.set_train()
    compare = nn.CrossEntropyLoss()

    def forward(x: Tensor, y: Tensor) -> Tensor:
        return compare(net(x), y)

    by_functions(net, forward, nn.Adam(net.trainable_params(), 3e-3), classes(14))


def cut_encoder_in_a_graph(bad: bool) -> None:
    ms.set_seed(1)
    net = TwoParts(bad)
    by_model(net, nn.CrossEntropyLoss(), nn.Adam(net.trainable_params(), 3e-3), classes(14))


def deep_sigmoids_in_a_graph(bad: bool) -> None:
    ms.set_seed(1)
    layers: list[nn.Cell] = []
    channels = 1
    for _ in range(8 if bad else 2):
        layers += [nn.Conv2d(channels, 4, 3, has_bias=True), nn.Sigmoid() if bad else nn.ReLU()]
        channels = 4
    net = nn.SequentialCell(*layers, nn.Flatten(), nn.Dense(4 * 36, 3))
    random = np.random.RandomState(4)
    rows = []
    for _ in range(24):
        label = random.randint(0, 3, 16)
        image = random.randn(16, 1, 6, 6).astype("f") * 0.5
        for row, kind in enumerate(label):
            image[row, 0, 2 * kind : 2 * kind + 2] += 1.5
        rows.append((image, label.astype(np.int32)))
    by_model(net, nn.CrossEntropyLoss(), nn.SGD(net.trainable_params(), 0.05), rows)


class Reader(nn.Cell):
    """Attention over padded text; the padding is token 0."""

    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.query, self.key, self.value = nn.Dense(16, 16), nn.Dense(16, 16), nn.Dense(16, 16)
        self.head = nn.Dense(16, 3)
        self.inverted = bad

    def construct(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        score = ops.matmul(self.query(x), self.key(x).swapaxes(1, 2)) / math.sqrt(16)
        shut = tokens != 0 if self.inverted else tokens == 0
        score = score.masked_fill(shut.expand_dims(1), -1e9)
        return self.head(ops.matmul(ops.softmax(score, axis=-1), self.value(x)).mean(1))


def inverted_mask(bad: bool) -> None:
    ms.set_seed(1)
    net = Reader(bad)
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


class Scores(nn.Cell):
    """Products in half precision of values that grow in the middle of the training."""

    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.read = nn.Dense(6, 16)
        self.head = nn.Dense(16, 1)
        self.scale = 90.0 if bad else 1.0

    def construct(self, x: Tensor) -> Tensor:
        code = (self.read(x) * self.scale).astype(ms.float16)
        score = ops.matmul(code, code.swapaxes(0, 1))
        return self.head(self.read(x)) + score.astype(ms.float32).mean(1, keep_dims=True) / (self.scale * self.scale)


def half_products_in_a_graph(bad: bool) -> None:
    ms.set_seed(1)
    net = Scores(bad)
    rows = values(14)
    rows[9][0][:] *= 4
    by_model(net, nn.MSELoss(), nn.Adam(net.trainable_params(), 1e-3), rows)


def zero_weights(bad: bool) -> None:
    """Weights start at zero, biases as the layers make them."""
    ms.set_seed(1)
    net = mlp(8, 16, 16, 4)
    if bad:
        for parameter in net.trainable_params():
            if parameter.name.endswith("weight"):
                parameter.set_data(Tensor(np.zeros(parameter.shape, "f")))
    net.set_train()
    compare = nn.CrossEntropyLoss()
    by_functions(net, lambda x, y: compare(net(x), y), nn.Adam(net.trainable_params(), 1e-3), classes(20))


class Loop(nn.Cell):
    """One layer that is called again and again on what it gave."""

    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.read = nn.Dense(6, 16)
        self.state = nn.Dense(16, 16, weight_init=Normal(0.9 if bad else 0.25), has_bias=False)
        self.head = nn.Dense(16, 1)

    def construct(self, x: Tensor) -> Tensor:
        held = self.read(x)
        for _ in range(20):
            held = self.state(held)
        return self.head(held)


def exploding_loop(bad: bool) -> None:
    ms.set_seed(1)
    net = Loop(bad)
    net.set_train()
    compare = nn.MSELoss()
    by_functions(net, lambda x, y: compare(net(x), y), nn.SGD(net.trainable_params(), 0.01), values(25))
