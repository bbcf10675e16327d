"""The adapter suite on PyTorch, on CPU."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from tensight.frameworks.adapter import Adapter, Array
from tensight.frameworks.torch.adapter import TorchAdapter
from tensight.testing.adapter_suite import AdapterSuite, Outcome


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.act = nn.Tanh()
        self.second: nn.Module = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.act(self.first(x)))


class Dividing(nn.Linear):
    """From its second call on it divides zero by zero."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        out = super().forward(x)
        return out / (out * 0.0) if self.calls > 1 else out


class Normed(Net):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.act(self.norm(self.first(x))))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4, bias=False)
        self.act = nn.Tanh()
        self.second = nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.act(self.first(x)))[:, :2]


@dataclasses.dataclass
class Result:
    value: Tensor
    mask: Tensor


class Pair(nn.Module):
    def __init__(self, whole: bool) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, x: Tensor) -> Any:
        mask = (x > 0).float()
        return Result(x * 2, mask) if self.whole else (x * 2, {"mask": mask})


class Nested(Net):
    def __init__(self, whole: bool = False) -> None:
        super().__init__()
        self.pair = Pair(whole)

    def forward(self, x: Tensor) -> Tensor:
        made = self.pair(self.first(x))
        value, mask = (made.value, made.mask) if isinstance(made, Result) else (made[0], made[1]["mask"])
        return self.second(self.act(value * mask))


class Repeated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.act = nn.Tanh()
        self.second = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.act(self.first(self.first(x))))


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.second(F.relu(self.first(x))))


def batches(steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    random = np.random.RandomState(7)
    for _ in range(steps):
        yield torch.tensor(random.randn(8, 4).astype("f")), torch.tensor(random.randn(8, 2).astype("f"))


def copy_of(net: nn.Module) -> dict[str, Array]:
    return {name: value.detach().numpy().copy() for name, value in net.state_dict().items()}


def random_state() -> bytes:
    return torch.get_rng_state().numpy().tobytes() + np.random.get_state()[1].tobytes()  # type: ignore[index]


def momentum(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, 0.1, momentum=0.9)


def loop(
    steps: int,
    make: Callable[[], nn.Module] = Net,
    *,
    optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer] = momentum,
    feed: Callable[[int], Iterable[tuple[Tensor, Tensor]]] = batches,
    micro: int = 1,
    after_step: Callable[[nn.Module, Tensor], None] = lambda net, x: None,
    prepare: Callable[[nn.Module, Outcome], None] = lambda net, outcome: None,
    scaler: torch.amp.GradScaler | None = None,
    scheduler: Callable[[torch.optim.Optimizer], Any] | None = None,
    clip: bool = False,
    criterion: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Outcome:
    """The loop as PyTorch's own guide writes it."""
    torch.manual_seed(1)
    np.random.seed(1)
    net = make()
    outcome = Outcome([], {})
    prepare(net, outcome)
    update = optimizer([parameter for parameter in net.parameters() if parameter.requires_grad])
    schedule = None if scheduler is None else scheduler(update)
    criterion = criterion or nn.MSELoss()
    for number, (x, y) in enumerate(feed(steps * micro)):
        outcome.inputs.append(x.numpy().copy())
        loss = criterion(net(x), y)
        outcome.losses.append(loss.item())
        (loss if scaler is None else scaler.scale(loss)).backward()
        if (number + 1) % micro:
            continue
        factor = 1.0 if scaler is None else scaler.get_scale()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        outcome.before.append(copy_of(net))
        outcome.gradients.append(
            {name: p.grad.numpy() / np.float32(factor) for name, p in net.named_parameters() if p.grad is not None}
        )
        outcome.rates.append(update.param_groups[0]["lr"])
        if scaler is None:
            update.step()
        else:
            scaler.step(update)
            scaler.update()
        outcome.after.append(copy_of(net))
        if schedule is not None:
            schedule.step()
        update.zero_grad()
        after_step(net, x)
    outcome.weights = copy_of(net)
    outcome.random = random_state()
    outcome.refs = [weakref.ref(net), weakref.ref(update), weakref.ref(next(net.parameters()))]
    return outcome


class TestTorch(AdapterSuite):
    BUFFERS = ("norm.running_mean", "norm.running_var")

    def adapter(self) -> Adapter:
        return TorchAdapter()

    def fingerprint(self) -> object:
        modules = torch.nn.modules.module
        owners = [
            nn.Module,
            torch.optim.Optimizer,
            torch.optim.SGD,
            torch.optim.lr_scheduler.LRScheduler,
            torch.amp.GradScaler,
            DataLoader,
            torch.Tensor,
            torch.autograd,
            nn.utils,
            nn.utils.clip_grad,
            F,
            nn.MSELoss,
        ]
        hooks = [dict(value) for name, value in sorted(vars(modules).items()) if name.startswith("_global_")
                 and isinstance(value, dict)]  # fmt: skip
        return [{name: id(value) for name, value in vars(owner).items()} for owner in owners], hooks

    def tensors(self, values: Array) -> Iterable[tuple[Any, Array]]:
        base = torch.tensor(values)
        for dtype in (torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int8, torch.bool):
            yield base.to(dtype), base.to(dtype).numpy()
        for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
            yield base.to(dtype), values.astype("f")
        yield base.float().T, values.astype("f").T
        yield base.float()[:, ::2], values.astype("f")[:, ::2]

    def train(self, steps: int) -> Outcome:
        return loop(steps)

    def train_to_nan(self, steps: int) -> Outcome:
        def make() -> nn.Module:
            net = Net()
            net.second = Dividing(8, 2)
            return net

        return loop(steps, make)

    def train_two_models(self, steps: int) -> Outcome:
        torch.manual_seed(1)
        one, two = Net(), Net()
        first = momentum(list(one.parameters()))
        second = torch.optim.Adam(two.parameters(), 0.1)
        criterion = nn.MSELoss()
        outcome = Outcome([], {})
        for x, y in batches(steps):
            for net, rule in ((one, first), (two, second)):
                rule.zero_grad()
                loss = criterion(net(x), y)
                loss.backward()
                rule.step()
                outcome.losses.append(loss.item())
        outcome.weights = {
            f"{n}.{name}": value for n, net in enumerate((one, two)) for name, value in copy_of(net).items()
        }
        return outcome

    def train_and_evaluate(self, steps: int) -> Outcome:
        seen: list[str] = []

        def evaluate(net: nn.Module, x: Tensor) -> None:
            net.eval()
            with torch.no_grad():
                seen.append(str(net(x).numpy().tobytes()))
            net.train()

        outcome = loop(steps, after_step=evaluate)
        outcome.printed = seen
        return outcome

    def infer(self, steps: int) -> Outcome:
        torch.manual_seed(1)
        net = Net().eval()
        with torch.no_grad():
            printed = [str(net(x).numpy().tobytes()) for x, _ in batches(steps)]
        return Outcome([], copy_of(net), printed=printed)

    def train_frozen(self, steps: int) -> Outcome:
        return loop(steps, prepare=lambda net, outcome: net.first.requires_grad_(False))

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
        def hook(net: nn.Module, outcome: Outcome) -> None:
            net.second.register_forward_hook(lambda m, i, o: outcome.hooks.append(f"forward {tuple(o.shape)}"))
            net.second.register_full_backward_hook(
                lambda m, i, o: outcome.hooks.append(f"backward {tuple(o[0].shape)}")
            )

        return loop(steps, prepare=hook)

    def train_functional(self, steps: int) -> Outcome:
        return loop(steps, Functional)

    def train_by_hand(self, steps: int) -> Outcome:
        torch.manual_seed(1)
        net = Net()
        criterion = nn.MSELoss()
        losses = []
        for x, y in batches(steps):
            loss = criterion(net(x), y)
            loss.backward()
            with torch.no_grad():
                for parameter in net.parameters():
                    assert parameter.grad is not None
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
            losses.append(loss.item())
        return Outcome(losses, copy_of(net), held=[net])

    def train_functional_loss(self, steps: int) -> Outcome:
        return loop(steps, criterion=F.mse_loss)

    def train_from_loader(self, steps: int) -> Outcome:
        def feed(count: int) -> Iterator[tuple[Tensor, Tensor]]:
            pairs = list(batches(count))
            rows = TensorDataset(torch.cat([x for x, _ in pairs]), torch.cat([y for _, y in pairs]))
            return ((x, y) for x, y in DataLoader(rows, batch_size=8))

        return loop(steps, feed=feed)

    def train_scheduled(self, steps: int) -> Outcome:
        return loop(steps, scheduler=lambda update: torch.optim.lr_scheduler.ExponentialLR(update, 0.5))

    def train_scaled(self, steps: int) -> Outcome:
        return loop(steps, scaler=torch.amp.GradScaler("cpu", init_scale=1024.0))

    def train_overflowing(self, steps: int) -> Outcome:
        def spoil(count: int) -> Iterator[tuple[Tensor, Tensor]]:
            for index, (x, y) in enumerate(batches(count)):
                yield (x * 1e30 * 1e30 if index == 0 else x), y

        return loop(steps, feed=spoil, scaler=torch.amp.GradScaler("cpu", init_scale=1024.0))

    def train_clipped(self, steps: int) -> Outcome:
        return loop(steps, clip=True)

    def train_compiled(self, steps: int) -> Outcome:
        def make() -> nn.Module:
            net = Net()
            net.compile(backend="eager")
            return net

        return loop(steps, make)
