"""A made-up run of a training's first steps, to be changed in one place by a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tensight.records import (
    Change,
    Event,
    Module,
    Network,
    Observation,
    Parameter,
    Part,
    RunEnd,
    RunInfo,
    Stats,
    StepRecord,
    TensorInfo,
)
from tensight.runs import Run, open_run
from tensight.store import Writer

LAYERS = ("body", "head")
INPUT = 0


def stats(low: float, high: float, count: int = 64, **other: object) -> Stats:
    middle = (low + high) / 2
    return msgspec.structs.replace(
        Stats(
            count,
            positive=count // 2,
            negative=count // 2,
            min=low,
            max=high,
            mean=middle,
            abs_mean=max(abs(low), abs(high)) / 2,
            std=(high - low) / 4,
            l2=max(abs(low), abs(high)),
        ),
        **other,
    )


ZERO = Stats(64, zero=64, min=0.0, max=0.0, mean=0.0, abs_mean=0.0, std=0.0, l2=0.0)


@dataclass
class Flight:
    """A classification of four classes by two layers, healthy as it stands."""

    steps: int = 20
    held: tuple[str, ...] = LAYERS
    unknown_parameters: int = 0
    fed: Callable[[int], Stats] = lambda step: stats(-2.0 - step / 100, 2.0)
    gradients: dict[str, Stats | None] = field(default_factory=dict)  # None: there is none
    change: float = 1e-3  # of a weight, a step
    losses: Callable[[int], float] = lambda step: 1.4 - step / 100
    label: Callable[[int], dict[str, object]] = lambda step: {
        "target_distinct": 4,
        "target_entropy": 1.3,
        "target_min": 0,
        "target_max": 3,
    }
    batch: Callable[[int], dict[str, object]] = lambda step: {
        "index": step,
        "mean.0": step / 7,
        "std.0": 1.0,
        "nan.0": 0,
    }
    function: str = "cross_entropy"
    loss_values: dict[str, object] = field(default_factory=dict)
    training: bool = True
    update: bool = True
    modules: tuple[str, ...] = ("Linear", "Linear", "Dropout")
    memory: Callable[[int], float] = lambda step: 3e8
    wait: float = 0.01

    def write(self, folder: Path) -> Run:
        writer = Writer(folder, RunInfo("flight", ("train.py",), 0.0, "torch", "2.0", tensight="0.1.0"))
        parameters = tuple(Parameter(f"{name}.weight", (8, 8), "float32", module=name) for name in LAYERS)
        modules = (Module("", "Net"), *(Module(name, kind) for name, kind in zip((*LAYERS, "drop"), self.modules)))
        writer.network(Network("net", "Net", modules, parameters))
        writer.part(
            Part(
                "optimizer",
                "Adam",
                "Adam",
                {"lr": 0.1},
                parameters=tuple(f"net:{name}.weight" for name in self.held),
                unknown_parameters=self.unknown_parameters,
            )
        )
        writer.part(Part("loader", "DataLoader", "DataLoader", {"workers": 0, "batch_size": 32}))
        writer.tensor(TensorInfo(INPUT, "input", "", "input.0", "net", dtype="float32"))
        for at, name in enumerate(LAYERS):
            writer.tensor(TensorInfo(10 + at, "output", name, "output.0", "net", dtype="float32", type="Linear"))
            writer.tensor(TensorInfo(20 + at, "gradient", name, "weight", "net", shape=(8, 8), dtype="float32"))
            writer.tensor(TensorInfo(30 + at, "weight", name, "weight", "net", shape=(8, 8), dtype="float32"))
        for step in range(self.steps):
            writer.step(self._step(step))
        writer.end(RunEnd("stopped", 1.0, 0, self.steps))
        writer.close()
        return open_run(folder)

    def _step(self, step: int) -> StepRecord:
        seen = [Observation(INPUT, 0, self.fed(step))]
        for at in range(len(LAYERS)):
            seen.append(Observation(10 + at, 1 + at, stats(-1, 1)))
        for at, name in enumerate(LAYERS):
            gradient = self.gradients.get(name, stats(-0.1, 0.1))
            if gradient is not None:
                seen.append(Observation(20 + at, 10 + at, gradient, "backward"))
            moved = name in self.held and gradient is not None and gradient.zero < gradient.count and self.change > 0
            size = 0.2
            change = Change(
                64, self.change * size if moved else 0.0, self.change if moved else 0.0, size, 0, 0 if moved else 64
            )
            seen.append(Observation(30 + at, 20 + at, stats(-0.4, 0.4, change=change), "update"))
        loss = self.losses(step)
        values = {"function": self.function, "prediction_shape": "32x4", "target_shape": "32", "value": loss}
        events = [
            Event("batch", 0, "DataLoader", self.batch(step)),
            Event("forward", 1, "net", {"training": self.training, "grad": True}),
            Event("loss", 2, self.function, {**values, **self.label(step), **self.loss_values}),
            Event("backward", 3, "net"),
        ]
        if self.update:
            events.append(Event("optimizer_step", 4, "Adam", {"lr": 0.1}))
        return StepRecord(
            step,
            float(step),
            0.1,
            loss=loss,
            losses=(loss,),
            scalars={"memory": self.memory(step), "wait": self.wait, "lr": 0.1},
            events=tuple(events),
            observations=tuple(seen),
        )
