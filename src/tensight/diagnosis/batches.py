"""What the training is fed, as loaders tell it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensight.records import Event, Source
from tensight.records.event import Value

MOST_SIZES = 256  # that are kept of one loader


@dataclass(slots=True)
class LoaderBatches:
    """The batches of one loader."""

    name: str
    first_nan: int = -1
    nan_values: dict[str, Value] = field(default_factory=dict)  # of the first batch with a NaN
    source: Source | None = None
    count: int = 0  # batches so far
    restarts: int = 0  # of which the first of an iteration
    second_epoch: int = -1  # the step in which samples came again for the first time
    repeats: int = 0  # of which the same as an earlier one of the iteration
    judged: int = 0  # of which looked at
    first_repeat: int = -1
    sizes: list[tuple[int, float]] = field(default_factory=list)  # (step, std of the first tensor), thinned
    stride: int = 1
    drawn: int = 0  # samples that its sampler has named
    distinct: int = 0  # of which different ones

    def add(self, step: int, values: dict[str, Value]) -> None:
        self.count += 1
        self.restarts += values.get("index") == 0
        if self.restarts == 2 and self.second_epoch < 0:
            self.second_epoch = step
        std = values.get("std.0")
        if isinstance(std, (int, float)):
            self.judged += 1
            if self.judged % self.stride == 0:
                self.sizes.append((step, float(std)))
                if len(self.sizes) > MOST_SIZES:
                    self.sizes = self.sizes[::2]
                    self.stride *= 2
        drawn, distinct = values.get("drawn"), values.get("distinct")
        if isinstance(drawn, int) and isinstance(distinct, int):
            self.drawn, self.distinct = drawn, distinct
        if values.get("repeat_of") is not None:
            self.repeats += 1
            if self.first_repeat < 0:
                self.first_repeat = step


class Batches:
    """Follows batch events."""

    def __init__(self) -> None:
        self.loaders: dict[str, LoaderBatches] = {}

    def follow(self, step: int, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.kind != "batch":
                continue
            seen = self.loaders.get(event.part)
            if seen is None:
                seen = self.loaders[event.part] = LoaderBatches(event.part)
            seen.source = event.source or seen.source
            seen.add(step, event.values)
            if seen.first_nan < 0 and any(value for key, value in event.values.items() if key.startswith("nan.")):
                seen.first_nan = step
                seen.nan_values = event.values

    def at(self, step: int) -> LoaderBatches | None:
        """The loader whose first batch with a NaN came in this step."""
        return next((seen for seen in self.loaders.values() if seen.first_nan == step), None)
