"""Made-up runs, record by record: what rules are tested on."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from tensight.diagnosis import Engine
from tensight.diagnosis.document import page
from tensight.records import (
    Change,
    Event,
    Finding,
    Module,
    Network,
    Observation,
    Parameter,
    Part,
    Replay,
    Source,
    Stats,
    StepRecord,
    TensorInfo,
)

NAMES = frozenset(re.findall("^### (.+)$", page(), re.M))
"""The faults that the page of findings explains."""

LOSS_LINE = Source("train.py", 20, "loss = F.cross_entropy(net(x), y)")
BACKWARD_LINE = Source("train.py", 22, "loss.backward()")
STEP_LINE = Source("train.py", 23, "opt.step()")
OPTIMIZER_LINE = Source("train.py", 9, "opt = torch.optim.SGD(net.parameters(), lr=0.1)")


def stats(size: float = 1.0, count: int = 64, **more: Any) -> Stats:
    """Values spread evenly around 0 with a mean magnitude of `size`; 0 gives a tensor of zeros."""
    if size == 0:
        known: dict[str, Any] = {
            "zero": count,
            "min": 0.0,
            "max": 0.0,
            "mean": 0.0,
            "abs_mean": 0.0,
            "std": 0.0,
            "l2": 0.0,
        }
    else:
        known = {
            "positive": count // 2,
            "negative": count - count // 2,
            "min": -2 * size,
            "max": 2 * size,
            "mean": 0.0,
            "abs_mean": size,
            "std": 1.15 * size,
            "l2": 1.15 * size * math.sqrt(count),
        }
    return Stats(count=count, **(known | more))


def constant(value: float, count: int = 64) -> Stats:
    """One number everywhere."""
    return Stats(
        count=count,
        zero=count if value == 0 else 0,
        min=value,
        max=value,
        mean=value,
        abs_mean=abs(value),
        std=0.0,
        l2=abs(value) * math.sqrt(count),
    )


def nan(count: int = 64, bad: int | None = None) -> Stats:
    """A tensor that is NaN, or holds some."""
    return Stats(count=count, nan=count if bad is None else bad)


class Layer:
    """A layer of the made-up network and how it behaves in the next step."""

    def __init__(
        self, path: str, shape: tuple[int, ...] = (16, 16), *, weight: float = 0.2, dtype: str = "float32"
    ) -> None:
        self.path = path
        self.shape = shape
        self.dtype = dtype
        self.weight = weight  # mean magnitude
        self.start: Stats | None = None  # before the first update, when it is special
        self.gradient: float | Stats | None = 0.01
        self.update = 1e-3  # change over weight
        self.equal = 0.0  # share of elements an update leaves as they were
        self.output: float | Stats = 1.0
        self.activation = ""  # of what follows: 'relu', 'tanh', 'softmax'
        self.active: float | Stats = 0.5
        self.called = True
        self.trainable = True
        self.registered = True
        self.held = True


class Run:
    """A run that is written step by step into an engine."""

    def __init__(
        self,
        layers: Sequence[Layer] = (),
        *,
        lr: float | None = 0.1,
        optimizer: str = "SGD",
        modules: Sequence[Module] = (),
        unknown: int = 0,
        settings: dict[str, Any] | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.layers = list(layers) or [Layer("fc1"), Layer("fc2"), Layer("head")]
        self.lr = lr
        self.optimizer = optimizer
        self.errors: list[str] = []
        self.engine = engine or Engine(on_error=lambda where, error: self.errors.append(f"{where}: {error!r}"))
        self.step = 0
        self.seconds = 0.01  # of each step
        self.input: float | Stats = 1.0
        self.scalars: dict[str, float] = {}
        self.loss_values: dict[str, Any] | None = {
            "function": "cross_entropy",
            "prediction_shape": "32x4",
            "target_shape": "32",
            "prediction_min": -2.0,
            "prediction_max": 2.0,
            "prediction_row_sum_min": -3.0,
            "prediction_row_sum_max": 3.0,
            "prediction_from": "addmm",
            "classes": 4,
            "target_min": 0,
            "target_max": 3,
            "target_distinct": 4,
            "target_entropy": 1.38,
            "reduction": "mean",
        }
        self._ids: dict[tuple[str, str], int] = {}
        self._infos: dict[int, TensorInfo] = {}
        self._modules = list(modules)
        self.tell_network()
        held = tuple(f"net:{layer.path}.weight" for layer in self.layers if layer.held)
        if optimizer:  # without one, the script changes its weights by hand
            values = {"lr": lr or 0.0, **(settings or {})}
            self.engine.part(Part("optimizer", optimizer, optimizer, values, OPTIMIZER_LINE, held, unknown))

    def tell_network(self) -> None:
        modules = [Module("", "Net", source=Source("train.py", 7, "net = Net()"))]
        modules += [
            Module(layer.path, "Linear", source=Source("train.py", 3 + i)) for i, layer in enumerate(self.layers)
        ]
        modules += self._modules
        parameters = [
            Parameter(
                f"{layer.path}.weight",
                layer.shape,
                layer.dtype,
                trainable=layer.trainable,
                module=layer.path,
                optimizer=self.optimizer if layer.held else "",
                registered=layer.registered,
            )
            for layer in self.layers
        ]
        self.engine.network(Network("net", "Net", tuple(modules), tuple(parameters), source=Source("train.py", 7)))

    def tensor(self, kind: str, node: str, slot: str, **more: Any) -> int:
        key = (kind, f"{node}/{slot}")
        if key not in self._ids:
            self._ids[key] = len(self._ids)
            info = TensorInfo(self._ids[key], kind, node, slot, network="net", **more)  # type: ignore[arg-type]
            self._infos[info.id] = info
            self.engine.tensor(info)
        return self._ids[key]

    def events(self, *, zero: bool = True, cleared: bool = True) -> list[Event]:
        """What a plain training step does, in order."""
        found = [Event("forward", part="net", values={"training": True, "grad": True})]
        if self.loss_values is not None:
            found.append(Event("loss", part="loss", values=dict(self.loss_values), source=LOSS_LINE))
        if zero and self.optimizer:
            found.append(Event("zero_grad", part=self.optimizer))
        found.append(Event("backward", part="net", values={"cleared": cleared}, source=BACKWARD_LINE))
        if self.optimizer:
            found.append(Event("optimizer_step", part=self.optimizer, values={"lr": self.lr}, source=STEP_LINE))
        return found

    def observations(self) -> list[Observation]:
        found: list[Observation] = []

        def see(tensor: int, value: float | Stats, phase: str = "forward") -> None:
            seen = value if isinstance(value, Stats) else stats(value)
            found.append(Observation(tensor, len(found), seen, phase))  # type: ignore[arg-type]

        see(self.tensor("input", "", "input.0", dtype="float32"), self.input)
        if self.step == 0:
            for layer in self.layers:
                tensor = self.tensor("weight", layer.path, "weight", dtype=layer.dtype, shape=layer.shape)
                see(tensor, layer.start or stats(layer.weight, math.prod(layer.shape)))
        for layer in self.layers:
            if layer.called:
                see(self.tensor("output", layer.path, "output.0", dtype=layer.dtype, type="Linear"), layer.output)
                if layer.activation:
                    tensor = self.tensor(
                        "activation", layer.path, layer.activation, type=layer.activation, dtype="float32"
                    )
                    see(tensor, layer.active)
        for layer in self.layers:
            if layer.gradient is not None:
                see(self.tensor("gradient", layer.path, "weight", dtype=layer.dtype), layer.gradient, "backward")
        for layer in self.layers:
            tensor = self.tensor("weight", layer.path, "weight", dtype=layer.dtype, shape=layer.shape)
            see(tensor, self._changed(layer), "update")
        return found

    @staticmethod
    def _changed(layer: Layer) -> Stats:
        count = math.prod(layer.shape)
        moved = layer.update * layer.weight
        equal = count if not moved else int(layer.equal * count)
        change = Change(count, moved, 2 * moved, layer.weight, 0 if not moved else count - equal, equal)
        return stats(layer.weight, count, change=change)

    def train(
        self,
        loss: float = 1.0,
        *,
        events: Sequence[Event] | None = None,
        observations: Sequence[Observation] | None = None,
        losses: Sequence[float] | None = None,
        depth: int = 2,
    ) -> list[Finding]:
        """One more step; answers what is new."""
        scalars = dict(self.scalars)
        if self.lr is not None:
            scalars["lr"] = self.lr
        seen = self.observations() if observations is None else observations
        if not depth:  # the lightest depth sees the loss and nothing else
            seen = [Observation(self.tensor("loss", "", "loss"), 0, constant(loss, 1))]
        record = StepRecord(
            step=self.step,
            time=float(self.step),
            seconds=self.seconds,
            loss=loss,
            losses=tuple(losses or (loss,)),
            depth=depth,
            scalars=scalars,
            events=tuple(self.events() if events is None else events),
            observations=tuple(seen),
        )
        self.step += 1
        return self.engine.step(record)

    def learn(self, steps: int, begin: float = 1.4, end: float = 0.4) -> Run:
        """Steps in which the loss falls."""
        for at in range(steps):
            self.train(begin + (end - begin) * at / max(1, steps - 1))
        return self

    def stall(self, steps: int, loss: float = 1.4) -> Run:
        """Steps in which the loss stays where it is, with a little noise."""
        for at in range(steps):
            self.train(loss * (1 + 0.01 * math.sin(1.7 * at)))
        return self

    def replay(self, operator: str, step: int, **more: Any) -> list[Finding]:
        return self.engine.replay(Replay(step, "exact", operator=operator, **more))

    def end(self, *, crashed: bool = False) -> list[Finding]:
        """What stands in the end; an error in a rule fails the test, and so does a name that no page explains."""
        self.engine.end(crashed=crashed)
        assert not self.errors
        assert {finding.fault for finding in self.engine.findings} <= NAMES
        return self.engine.findings

    def faults(self) -> list[str]:
        return [finding.fault for finding in self.end()]
