"""The adapter suite on MindSpore, in PyNative mode on CPU."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import mindspore as ms
import mindspore.dataset as dataset
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.amp import DynamicLossScaler, StaticLossScaler, all_finite

from tensight.frameworks.adapter import Adapter, Array
from tensight.frameworks.mindspore.adapter import MindSporeAdapter, api_module
from tensight.testing.adapter_suite import AdapterSuite, Outcome


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(4, 8)
        self.act = nn.Tanh()
        self.second = nn.Dense(8, 2)

    def construct(self, x: Tensor) -> Tensor:
        return self.second(self.act(self.first(x)))


class Faulty(Net):
    def construct(self, x: Tensor) -> Tensor:
        return ops.identity(super().construct(x))


class Dividing(nn.Dense):
    """From its second call on it divides zero by zero."""

    calls = 0

    def construct(self, x: Tensor) -> Tensor:
        self.calls += 1
        out = super().construct(x)
        return out / (out * 0.0) if self.calls > 1 else out


class Normed(Net):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def construct(self, x: Tensor) -> Tensor:
        return self.second(self.act(self.norm(self.first(x))))


class Tied(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(4, 4, has_bias=False)
        self.act = nn.Tanh()
        self.second = nn.Dense(4, 4, has_bias=False)
        self.second.weight = self.first.weight

    def construct(self, x: Tensor) -> Tensor:
        return self.second(self.act(self.first(x)))[:, :2]


@dataclasses.dataclass
class Result:
    value: Any
    mask: Any


class Pair(nn.Cell):
    def __init__(self, whole: bool) -> None:
        super().__init__()
        self.whole = whole

    def construct(self, x: Tensor) -> Any:
        mask = (x > 0).astype(ms.float32)
        return Result(x * 2, mask) if self.whole else (x * 2, {"mask": mask})


class Nested(Net):
    def __init__(self, whole: bool = False) -> None:
        super().__init__()
        self.pair = Pair(whole)

    def construct(self, x: Tensor) -> Tensor:
        made = self.pair(self.first(x))
        value, mask = (made.value, made.mask) if isinstance(made, Result) else (made[0], made[1]["mask"])
        return self.second(self.act(value * mask))


class Repeated(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(4, 4)
        self.act = nn.Tanh()
        self.second = nn.Dense(4, 2)

    def construct(self, x: Tensor) -> Tensor:
        return self.second(self.act(self.first(self.first(x))))


class Functional(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Dense(4, 8)
        self.second = nn.Dense(8, 2)

    def construct(self, x: Tensor) -> Tensor:
        return ops.sigmoid(self.second(ops.relu(self.first(x))))


class Compiled(Net):
    @ms.jit
    def construct(self, x: Tensor) -> Tensor:
        return self.second(self.act(self.first(x)))


def batches(steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    random = np.random.RandomState(7)
    for _ in range(steps):
        yield Tensor(random.randn(8, 4).astype("f")), Tensor(random.randn(8, 2).astype("f"))


def copy_of(net: nn.Cell) -> dict[str, Array]:
    return {name: value.asnumpy().copy() for name, value in net.parameters_and_names()}


def random_state() -> bytes:
    return ms.get_rng_state().asnumpy().tobytes() + np.random.get_state()[1].tobytes()  # type: ignore[index]


def loop(
    steps: int,
    make: Callable[[], nn.Cell] = Net,
    *,
    optimizer: Callable[[list[Parameter]], nn.Cell] = lambda parameters: nn.Momentum(parameters, 0.1, 0.9),
    feed: Callable[[int], Iterable[tuple[Tensor, Tensor]]] = batches,
    micro: int = 1,
    after_step: Callable[[nn.Cell, Tensor], None] = lambda net, x: None,
    prepare: Callable[[nn.Cell, Outcome], None] = lambda net, outcome: None,
    scaler: Any = None,
    criterion: Callable[[Tensor, Tensor], Tensor] | None = None,
    clip: float | None = None,
) -> Outcome:
    """The functional loop as MindSpore's own guide writes it."""
    ms.set_seed(1)
    np.random.seed(1)
    net = make()
    net.set_train()
    outcome = Outcome([], {})
    prepare(net, outcome)
    update = optimizer(net.trainable_params())
    compare = criterion or nn.MSELoss()

    def forward(x: Tensor, y: Tensor) -> Tensor:
        loss = compare(net(x), y)
        return loss if scaler is None else scaler.scale(loss)

    gradient = ms.value_and_grad(forward, None, update.parameters)
    total = None
    for number, (x, y) in enumerate(feed(steps * micro)):
        outcome.inputs.append(x.asnumpy().copy())
        loss, found = gradient(x, y)
        factor = 1.0 if scaler is None else float(scaler.scale_value.asnumpy())
        outcome.losses.append(float(loss.asnumpy()) / factor)
        total = found if total is None else tuple(a + b for a, b in zip(total, found))
        if (number + 1) % micro:
            continue
        finite = True
        if scaler is not None:
            finite = all_finite(total)
            total = scaler.unscale(total)
        if clip is not None:
            total = ops.clip_by_global_norm(total, clip)
        if bool(finite):
            outcome.before.append(copy_of(net))
            outcome.gradients.append({p.name: g.asnumpy().copy() for p, g in zip(update.parameters, total)})
            update(total)
            outcome.after.append(copy_of(net))
        if scaler is not None:
            scaler.adjust(Tensor(bool(finite)))
        total = None
        after_step(net, x)
    outcome.weights = copy_of(net)
    outcome.random = random_state()
    outcome.refs = [weakref.ref(net), weakref.ref(update)]
    return outcome


class TestMindSpore(AdapterSuite):
    BUFFERS = ("norm.moving_mean", "norm.moving_variance")

    def adapter(self) -> Adapter:
        return MindSporeAdapter()

    def fingerprint(self) -> object:
        api = api_module()
        owners = [
            nn.Cell,
            nn.Optimizer,
            type(api._pynative_executor),
            api._JitExecutor,
            api._CellGraphExecutor,
            DynamicLossScaler,
            StaticLossScaler,
            dataset.engine.iterators.Iterator,
            ops,
            Tensor,
        ]
        codes = [id(function.__code__) for function in (ops.cross_entropy, ops.mse_loss, ops.clip_by_global_norm)]
        return codes, [{name: id(value) for name, value in vars(owner).items()} for owner in owners]

    def recover(self) -> None:
        api_module()._pynative_executor.clear_res()  # it would go on to record for a gradient

    def tensors(self, values: Array) -> Iterable[tuple[Any, Array]]:
        for dtype in (ms.float64, ms.float32, ms.float16, ms.int64, ms.int32, ms.int8, ms.bool_):
            array = values.astype(ms.dtype_to_nptype(dtype))
            yield Tensor(array), array
        yield Tensor(values.astype("f")).astype(ms.bfloat16), values.astype("f")
        yield Tensor(values.astype("f")).T, values.astype("f").T

    def train(self, steps: int) -> Outcome:
        outcome = loop(steps)
        outcome.rates = [0.1] * steps
        return outcome

    def train_to_nan(self, steps: int) -> Outcome:
        def make() -> nn.Cell:
            net = Net()
            net.second = Dividing(8, 2)
            return net

        return loop(steps, make)

    def train_two_models(self, steps: int) -> Outcome:
        ms.set_seed(1)
        one, two = Net(), Net()
        outcome = Outcome([], {})
        rules = [nn.Momentum(one.trainable_params(), 0.1, 0.9), nn.SGD(two.trainable_params(), 0.1)]
        criterion = nn.MSELoss()
        for net in (one, two):
            net.set_train()
        steps_of = [
            ms.value_and_grad(lambda x, y, net=net: criterion(net(x), y), None, rule.parameters)
            for net, rule in zip((one, two), rules)
        ]
        for x, y in batches(steps):
            for gradient, rule in zip(steps_of, rules):
                loss, found = gradient(x, y)
                rule(found)
                outcome.losses.append(float(loss.asnumpy()))
        outcome.weights = {
            f"{index}.{name}": value for index, net in enumerate((one, two)) for name, value in copy_of(net).items()
        }
        return outcome

    def train_and_evaluate(self, steps: int) -> Outcome:
        seen: list[str] = []

        def evaluate(net: nn.Cell, x: Tensor) -> None:
            net.set_train(False)
            seen.append(str(net(x).asnumpy().tobytes()))
            net.set_train()

        outcome = loop(steps, after_step=evaluate)
        outcome.printed = seen
        return outcome

    def infer(self, steps: int) -> Outcome:
        ms.set_seed(1)
        net = Net()
        printed = [str(net(x).asnumpy().tobytes()) for x, _ in batches(steps)]
        return Outcome([], copy_of(net), printed=printed)

    def train_frozen(self, steps: int) -> Outcome:
        def freeze(net: nn.Cell, outcome: Outcome) -> None:
            for parameter in net.first.get_parameters():
                parameter.requires_grad = False

        return loop(steps, prepare=freeze)

    def train_with_buffers(self, steps: int) -> Outcome:
        return loop(steps, Normed)

    def train_tied(self, steps: int) -> Outcome:
        return loop(steps, Tied)

    def train_nested(self, steps: int) -> Outcome:
        return loop(steps, Nested)

    def train_dataclass(self, steps: int) -> Outcome:
        return loop(steps, lambda: Nested(whole=True))

    def train_repeated(self, steps: int) -> Outcome:
        return loop(steps, Repeated)

    def train_accumulating(self, steps: int) -> Outcome:
        return loop(steps, micro=2)

    def train_with_hook(self, steps: int) -> Outcome:
        def hook(net: nn.Cell, outcome: Outcome) -> None:
            def forward(cell: nn.Cell, inputs: Any, output: Any) -> None:
                outcome.hooks.append(f"forward {output.shape}")

            def backward(cell: nn.Cell, into: Any, out: Any) -> None:
                outcome.hooks.append(f"backward {out[0].shape}")

            net.second.register_forward_hook(forward)
            net.second.register_backward_hook(backward)

        return loop(steps, prepare=hook)

    def train_functional(self, steps: int) -> Outcome:
        return loop(steps, Functional)

    def train_by_hand(self, steps: int) -> Outcome:
        ms.set_seed(1)
        net = Net()
        net.set_train()
        criterion = nn.MSELoss()
        weights = net.trainable_params()
        gradient = ms.value_and_grad(lambda x, y: criterion(net(x), y), None, ms.ParameterTuple(weights))
        losses = []
        for x, y in batches(steps):
            loss, found = gradient(x, y)
            for weight, change in zip(weights, found):
                weight.set_data(Tensor(weight.asnumpy() - 0.1 * change.asnumpy()))
            losses.append(float(loss.asnumpy()))
        return Outcome(losses, copy_of(net), held=[net])

    def train_from_loader(self, steps: int) -> Outcome:
        def feed(count: int) -> Iterator[tuple[Tensor, Tensor]]:
            random = np.random.RandomState(7)
            rows = (random.randn(8 * count, 4).astype("f"), random.randn(8 * count, 2).astype("f"))
            data = dataset.NumpySlicesDataset(rows, ["x", "y"], shuffle=False, num_parallel_workers=1).batch(8)
            return iter(data.create_tuple_iterator(num_epochs=1))

        return loop(steps, feed=feed)

    def train_scheduled(self, steps: int) -> Outcome:
        rates = [0.1 / (index + 1) for index in range(steps)]
        outcome = loop(steps, optimizer=lambda parameters: nn.Momentum(parameters, rates, 0.9))
        outcome.rates = rates
        return outcome

    def train_scaled(self, steps: int) -> Outcome:
        return loop(steps, scaler=DynamicLossScaler(1024, 2, 100))

    def train_overflowing(self, steps: int) -> Outcome:
        def spoil(count: int) -> Iterator[tuple[Tensor, Tensor]]:
            for index, (x, y) in enumerate(batches(count)):
                yield (x * 1e30 * 1e30 if index == 0 else x), y

        return loop(steps, feed=spoil, scaler=DynamicLossScaler(1024, 2, 100))

    def train_functional_loss(self, steps: int) -> Outcome:
        return loop(steps, criterion=ops.mse_loss)

    def train_clipped(self, steps: int) -> Outcome:
        return loop(steps, clip=0.01)

    def train_compiled(self, steps: int) -> Outcome:
        return loop(steps, Compiled)
