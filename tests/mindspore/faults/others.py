"""Faults in other networks and other ways to train: a recurrence by hand, two networks, cells of the user's own."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import Constant

from tests.mindspore.faults.training import by_functions, values


class Recurrence(nn.Cell):
    """A state that is multiplied once per time step, by operators alone."""

    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.given = nn.Dense(3, 24)
        start = np.linalg.qr(np.random.RandomState(4).randn(24, 24))[0] * (2.6 if bad else 0.9)
        self.again = Parameter(Tensor(start.astype("f")), name="again")
        self.head = nn.Dense(24, 1)

    def construct(self, x: Tensor) -> Tensor:
        state = ops.zeros((x.shape[0], 24), ms.float32)
        for at in range(x.shape[1]):
            state = self.given(x[:, at]) + ops.matmul(ops.relu(state), self.again)
        return self.head(state)


def exploding_recurrence(bad: bool) -> None:
    ms.set_seed(1)
    random = np.random.RandomState(3)
    net = Recurrence(bad)
    net.set_train()
    inputs = [random.randn(16, 20, 3).astype("f") for _ in range(12)]
    rows = [(x, x[:, -4:, 0].mean(1, keepdims=True)) for x in inputs]
    compare = nn.MSELoss()
    by_functions(net, lambda x, y: compare(net(x), y), nn.Adam(net.trainable_params(), 1e-3), rows)


def generator_that_is_cut_off(bad: bool) -> None:
    """Two networks, each with an optimizer of its own; the loss of the first passes through the second."""
    ms.set_seed(1)
    random = np.random.RandomState(9)
    maker = nn.SequentialCell(nn.Dense(4, 16), nn.LeakyReLU(0.2), nn.Dense(16, 2))
    judge = nn.SequentialCell(nn.Dense(2, 16), nn.LeakyReLU(0.2), nn.Dense(16, 1))
    maker.set_train()
    judge.set_train()
    of_maker, of_judge = nn.Adam(maker.trainable_params(), 2e-3), nn.Adam(judge.trainable_params(), 2e-3)
    compare = nn.BCEWithLogitsLoss()

    def judging(real: Tensor, noise: Tensor) -> Tensor:
        a, b = judge(real), judge(ops.stop_gradient(maker(noise)))
        return compare(a, ops.ones_like(a)) + compare(b, ops.zeros_like(b))

    def making(noise: Tensor) -> Tensor:
        made = maker(noise)
        b = judge(ops.stop_gradient(made) if bad else made)
        return compare(b, ops.ones_like(b))

    judge_step = ms.value_and_grad(judging, None, of_judge.parameters)
    maker_step = ms.value_and_grad(making, None, of_maker.parameters)
    for _ in range(12):
        angle = random.rand(32) * 6.28
        real = np.stack([np.cos(angle), np.sin(angle)], 1).astype("f")
        of_judge(judge_step(Tensor(real), Tensor(random.randn(32, 4).astype("f")))[1])
        of_maker(maker_step(Tensor(random.randn(32, 4).astype("f")))[1])


class Energy(nn.Cell):
    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.filters = nn.Conv1d(2, 8, 5, pad_mode="same", has_bias=True)
        self.head = nn.Dense(8, 2)
        self.format = ms.float16 if bad else ms.float32

    def construct(self, x: Tensor) -> Tensor:
        found = (self.filters(x) * 12.0).astype(self.format)
        energy = (found * found).sum(2)
        return self.head(ops.log(energy.astype(ms.float32) + 1.0))


class OwnStep(nn.TrainOneStepCell):
    """As the tutorials have it: the loss, then its gradient, then the update."""

    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        loss = self.network(x, y)
        found = self.grad(self.network, self.weights)(x, y, ops.ones_like(loss))
        return ops.depend(loss, self.optimizer(found))


def half_energy_in_an_own_step(bad: bool) -> None:
    ms.set_seed(1)
    random = np.random.RandomState(2)
    net = Energy(bad)
    update = nn.SGD(net.trainable_params(), 0.002, momentum=0.9)
    step = OwnStep(nn.WithLossCell(net, nn.CrossEntropyLoss()), update)
    step.set_train()
    for at in range(12):
        label = random.randint(0, 2, 16)
        loud = 1.0 + 1.5 * label[:, None, None] + (6.0 if at == 8 else 0.0)
        step(Tensor((random.randn(16, 2, 40) * loud).astype("f")), Tensor(label.astype(np.int32)))


class Compiled(nn.Cell):
    """A network that jit compiles, in a loop that Python runs."""

    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.first = nn.Dense(12, 24)
        self.middle = nn.Dense(24, 24, bias_init=Constant(-9.0) if bad else "zeros")
        self.last = nn.Dense(24, 12)

    @ms.jit
    def construct(self, x: Tensor) -> Tensor:
        x = ops.relu(self.first(x))
        x = ops.relu(self.middle(x))
        return self.last(x)


def dead_relu_under_jit(bad: bool) -> None:
    ms.set_seed(1)
    random = np.random.RandomState(14)
    net = Compiled(bad)
    net.set_train()
    mix = random.randn(12, 12).astype("f") / 3
    inputs = [random.randn(32, 12).astype("f") for _ in range(24)]
    rows = [(x, np.abs(x) @ mix) for x in inputs]
    by_functions(net, lambda x, y: ops.mse_loss(net(x), y), nn.SGD(net.trainable_params(), 0.02), rows)


class Expert(nn.Cell):
    def __init__(self, start: str) -> None:
        super().__init__()
        self.up = nn.Dense(6, 20, weight_init=start)
        self.act = nn.Tanh()
        self.down = nn.Dense(20, 1, weight_init=start)

    def construct(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.up(x)))


class Mixture(nn.Cell):
    """Experts, and a gate that runs before them."""

    def __init__(self, bad: bool) -> None:
        super().__init__()
        start = "zeros" if bad else "xavier_uniform"
        self.one, self.two = Expert(start), Expert(start)
        self.gate = nn.Dense(6, 2)

    def construct(self, x: Tensor) -> Tensor:
        share = ops.softmax(self.gate(x), -1)
        return share[:, :1] * self.one(x) + share[:, 1:] * self.two(x)


def experts_of_zeros_in_a_graph(bad: bool) -> None:
    ms.set_seed(1)
    net = Mixture(bad)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params(), 5e-3))
    step.set_train()
    for x, y in values(24):
        step(Tensor(x), Tensor(y))


class OwnLoss(nn.Cell):
    """Joins a network and a loss by hand; a target with a dimension less spreads over all pairs."""

    def __init__(self, net: nn.Cell) -> None:
        super().__init__()
        self.net = net

    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.square(self.net(x) - y).mean()


def broadcast_in_an_own_cell_in_a_graph(bad: bool) -> None:
    ms.set_seed(1)
    net = nn.SequentialCell(nn.Dense(6, 24), nn.ReLU(), nn.Dense(24, 1))
    step = nn.TrainOneStepCell(OwnLoss(net), nn.Adam(net.trainable_params(), 1e-2))
    step.set_train()
    for x, y in values(24):
        step(Tensor(x), Tensor(y[:, 0] if bad else y))
