"""Trainings with one fault each; given `bad=False`, the same training without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from tests.mindspore.faults import apart, hidden, more, others
from tests.mindspore.faults.training import by_functions, by_model, classes, mlp, values


class Expected(NamedTuple):
    fault: str
    where: str  # part of the line, module, parameter or operator that the first finding names


class Program(NamedTuple):
    run: Callable[[bool], None]
    expected: Expected
    graph: bool = False


class Likelihood(nn.Cell):
    """Probabilities by hand."""

    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.body = mlp(8, 16, 4)
        self.floor = 0.0 if bad else 1e-6

    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        score = ops.relu(self.body(x)) + self.floor
        picked = ops.gather_elements(score, 1, y.reshape(-1, 1).astype(ms.int64))
        return -ops.log(picked).mean() + ops.log(score.sum(1) + 1.0).mean()


def log_of_zero(bad: bool) -> None:
    ms.set_seed(1)
    net = Likelihood(bad)
    net.set_train()
    by_functions(net, net, nn.Adam(net.trainable_params(), 1e-3), classes(8))


class Pairs(nn.Cell):
    """The distance between two views of the same points; some views are equal."""

    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.embed = nn.Dense(6, 4)
        self.small = 0.0 if bad else 1e-6

    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        apart = self.embed(x) - self.embed(y)
        length = ops.sqrt((apart * apart).sum(1) + self.small)
        return ((length - 1.0) ** 2).mean()


def pairs(steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.RandomState(2)
    rows = [(random.randn(16, 6).astype("f"), random.randn(16, 6).astype("f")) for _ in range(steps)]
    rows[9][1][3] = rows[9][0][3]  # one pair of equal points, in one batch
    return rows


def sqrt_at_zero(bad: bool) -> None:
    ms.set_seed(1)
    net = Pairs(bad)
    net.set_train()
    by_functions(net, net, nn.Momentum(net.trainable_params(), 0.01, 0.9), pairs(14))


class Normalised(nn.Cell):
    """Rows are divided by their sum; a row of zeros has none."""

    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.small = 0.0 if bad else 1e-6
        self.head = mlp(6, 16, 1)

    def construct(self, x: Tensor) -> Tensor:
        share = x / (ops.abs(x).sum(1, keepdims=True) + self.small)
        return self.head(share)


def division(bad: bool) -> None:
    ms.set_seed(1)
    net = Normalised(bad)
    net.set_train()
    compare = nn.MSELoss()
    rows = values(12)
    rows[8][0][5] = 0.0
    by_functions(net, lambda x, y: compare(net(x), y), nn.Adam(net.trainable_params(), 1e-3), rows)


class Half(nn.Cell):
    """A layer in half precision that squares what it is given."""

    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.first = nn.Dense(6, 16)
        self.last = nn.Dense(16, 1)
        self.dtype = ms.float16 if bad else ms.float32

    def construct(self, x: Tensor) -> Tensor:
        wide = self.first(x).astype(self.dtype) * 200.0
        return self.last((wide * wide).astype(ms.float32) / 40000.0)


def float16_overflow(bad: bool) -> None:
    ms.set_seed(1)
    net = Half(bad)
    net.set_train()
    compare = nn.MSELoss()
    rows = values(14)
    rows[10][0][:] *= 3
    by_functions(net, lambda x, y: compare(net(x), y), nn.Adam(net.trainable_params(), 1e-3), rows)


def vanishing(bad: bool) -> None:
    ms.set_seed(1)
    net = mlp(8, *[24] * (10 if bad else 2), 4, act=nn.Sigmoid if bad else nn.ReLU)
    net.set_train()
    compare = nn.CrossEntropyLoss()
    rows = classes(30)
    by_functions(net, lambda x, y: compare(net(x), y), nn.SGD(net.trainable_params(), 0.05), rows)


def dead_relu(bad: bool) -> None:
    ms.set_seed(1)
    net = nn.SequentialCell(
        nn.Dense(8, 32), nn.ReLU(), nn.Dense(32, 32, bias_init=-30.0 if bad else "zeros"), nn.ReLU(), nn.Dense(32, 4)
    )
    net.set_train()
    compare = nn.CrossEntropyLoss()
    rows = classes(25)
    by_functions(net, lambda x, y: compare(net(x), y), nn.Adam(net.trainable_params(), 1e-3), rows)


def zero_init(bad: bool) -> None:
    ms.set_seed(1)
    net = mlp(8, 16, 16, 4)
    if bad:
        for parameter in net.trainable_params():
            parameter.set_data(Tensor(np.zeros(parameter.shape, "f")))
    net.set_train()
    compare = nn.CrossEntropyLoss()
    rows = classes(20)
    by_functions(net, lambda x, y: compare(net(x), y), nn.Adam(net.trainable_params(), 1e-3), rows)


def rate_too_high(bad: bool) -> None:
    ms.set_seed(1)
    net = mlp(6, 32, 1)
    net.set_train()
    compare = nn.MSELoss()
    rows = values(20)
    update = nn.SGD(net.trainable_params(), 30.0 if bad else 0.02)
    by_functions(net, lambda x, y: compare(net(x), y), update, rows)


def frozen(bad: bool) -> None:
    ms.set_seed(1)
    net = mlp(8, 16, 4)
    update = nn.Adam(net.trainable_params(), 1e-3)
    if bad:
        for parameter in net.get_parameters():
            parameter.requires_grad = False
    net.set_train()
    compare = nn.CrossEntropyLoss()
    rows = classes(20)
    by_functions(net, lambda x, y: compare(net(x), y), update, rows)


class Classifier(nn.Cell):
    def __init__(self, bad: bool) -> None:
        super().__init__()
        self.body = mlp(8, 32, 4)
        self.normalise = nn.Softmax(-1) if bad else nn.Identity()

    def construct(self, x: Tensor) -> Tensor:
        return self.normalise(self.body(x))


def softmax_before_loss(bad: bool) -> None:
    ms.set_seed(1)
    net = Classifier(bad)
    net.set_train()
    rows = classes(20)
    update = nn.Adam(net.trainable_params(), 3e-3)
    by_functions(net, lambda x, y: ops.cross_entropy(net(x), y), update, rows)


def no_set_train(bad: bool) -> None:
    ms.set_seed(1)
    net = nn.SequentialCell(nn.Dense(8, 32), nn.ReLU(), nn.Dropout(p=0.2), nn.Dense(32, 4))
    if not bad:
        net.set_train()
    compare = nn.CrossEntropyLoss()
    rows = classes(20)
    by_functions(net, lambda x, y: compare(net(x), y), nn.Adam(net.trainable_params(), 1e-3), rows)


def nan_in_data(bad: bool) -> None:
    ms.set_seed(1)
    net = mlp(6, 16, 1)
    net.set_train()
    rows = values(12)
    if bad:
        rows[7][0][4, 2] = np.nan
    by_model(net, nn.MSELoss(), nn.Adam(net.trainable_params(), 1e-3), rows)


# graph mode


def log_of_zero_in_a_graph(bad: bool) -> None:
    ms.set_seed(1)
    net = Likelihood(bad)
    by_model(net, None, nn.Adam(net.trainable_params(), 1e-3), classes(8))


def sqrt_at_zero_in_a_graph(bad: bool) -> None:
    ms.set_seed(1)
    net = Pairs(bad)
    net.set_train()
    by_functions(net, net, nn.Momentum(net.trainable_params(), 0.01, 0.9), pairs(14))


def nan_in_data_in_a_graph(bad: bool) -> None:
    nan_in_data(bad)


def rate_too_high_in_a_graph(bad: bool) -> None:
    ms.set_seed(1)
    net = mlp(6, 32, 1)
    update = nn.SGD(net.trainable_params(), 30.0 if bad else 0.02)
    by_model(net, nn.MSELoss(), update, values(20))


PROGRAMS: dict[str, Program] = {
    "log_of_zero": Program(log_of_zero, Expected("log_of_zero", "ops.log(picked)")),
    "sqrt_at_zero": Program(sqrt_at_zero, Expected("sqrt_zero_gradient", "ops.sqrt(")),
    "division": Program(division, Expected("division_by_zero", "share = x /")),
    "float16_overflow": Program(float16_overflow, Expected("fp16_overflow", "wide * wide")),
    "vanishing": Program(vanishing, Expected("vanishing_gradient", "0.weight")),
    "dead_relu": Program(dead_relu, Expected("dead_relu", "2.weight")),
    "zero_init": Program(zero_init, Expected("zero_init", "0.weight")),
    "rate_too_high": Program(rate_too_high, Expected("lr_too_high", "SGD")),
    "frozen": Program(frozen, Expected("frozen_parameters", "0.weight")),
    "softmax_before_loss": Program(softmax_before_loss, Expected("softmax_before_cross_entropy", "self.normalise(")),
    "no_set_train": Program(no_set_train, Expected("eval_mode_in_training", "2")),
    "nan_in_data": Program(nan_in_data, Expected("nan_in_input", "")),
    "log_of_zero_in_a_graph": Program(log_of_zero_in_a_graph, Expected("log_of_zero", "ops.log(picked)"), graph=True),
    "sqrt_at_zero_in_a_graph": Program(
        sqrt_at_zero_in_a_graph, Expected("sqrt_zero_gradient", "ops.sqrt("), graph=True
    ),
    "nan_in_data_in_a_graph": Program(nan_in_data_in_a_graph, Expected("nan_in_input", ""), graph=True),
    "rate_too_high_in_a_graph": Program(rate_too_high_in_a_graph, Expected("lr_too_high", "SGD"), graph=True),
    "zero_weights": Program(more.zero_weights, Expected("zero_init", "0.weight")),
    "exploding_loop": Program(more.exploding_loop, Expected("exploding_gradient", "state")),
    "replaced_head": Program(more.replaced_head, Expected("optimizer_holds_stale_parameters", "2.weight")),
    "broadcast_by_hand": Program(more.broadcast_by_hand, Expected("broadcast_in_loss", "(predicted - y) ** 2")),
    "cut_encoder": Program(more.cut_encoder, Expected("detach_breaks_graph", "code = ops.stop_gradient(code)")),
    "inverted_mask": Program(more.inverted_mask, Expected("attention_mask_wrong", "ops.softmax(score")),
    "layers_in_a_list": Program(hidden.layers_in_a_list, Expected("unregistered_parameters", "x = block(x)")),
    "mask_of_ones": Program(hidden.mask_of_ones, Expected("attention_mask_wrong", "ops.softmax(score")),
    "axis_of_the_batch_under_jit": Program(
        hidden.axis_of_the_batch_under_jit, Expected("softmax_over_batch_dim", "ops.log_softmax(")
    ),
    "sorted_labels_in_a_graph": Program(
        hidden.sorted_labels_in_a_graph, Expected("unshuffled_sorted_by_class", ".train(1, data"), graph=True
    ),
    "cut_encoder_in_a_graph": Program(
        more.cut_encoder_in_a_graph, Expected("detach_breaks_graph", "ops.stop_gradient(code) encoder"), graph=True
    ),
    "deep_sigmoids_in_a_graph": Program(
        more.deep_sigmoids_in_a_graph, Expected("vanishing_gradient", "0.weight"), graph=True
    ),
    "half_products_in_a_graph": Program(
        more.half_products_in_a_graph, Expected("fp16_overflow", "ops.matmul(code"), graph=True
    ),
    "exploding_recurrence": Program(others.exploding_recurrence, Expected("exploding_gradient", "again")),
    "generator_that_is_cut_off": Program(
        others.generator_that_is_cut_off, Expected("detach_breaks_graph", "made = maker(noise)")
    ),
    "half_energy_in_an_own_step": Program(
        others.half_energy_in_an_own_step, Expected("fp16_overflow", "found * found")
    ),
    "dead_relu_under_jit": Program(others.dead_relu_under_jit, Expected("dead_relu", "ops.relu(self.middle")),
    "experts_of_zeros_in_a_graph": Program(
        others.experts_of_zeros_in_a_graph, Expected("zero_init", "one.up.weight"), graph=True
    ),
    "broadcast_in_an_own_cell_in_a_graph": Program(
        others.broadcast_in_an_own_cell_in_a_graph, Expected("broadcast_in_loss", "self.net(x) - y"), graph=True
    ),
    "labels_of_others": Program(
        apart.labels_of_others, Expected("labels_shuffled_against_inputs", "compare(net(x), y)")
    ),
    "labels_of_others_in_a_graph": Program(
        apart.labels_of_others_in_a_graph, Expected("labels_shuffled_against_inputs", ".train(1, data"), graph=True
    ),
    "head_alone_in_a_graph": Program(
        apart.head_alone_in_a_graph, Expected("parameters_not_in_optimizer", "0.0.weight"), graph=True
    ),
    "scale_that_stays": Program(apart.scale_that_stays, Expected("gradients_not_unscaled", "update(found)")),
}
