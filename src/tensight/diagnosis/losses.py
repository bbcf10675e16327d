"""What goes into the loss: one account per place in the code where a loss is computed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tensight.diagnosis.words import shape
from tensight.records import Event, Source
from tensight.records.event import Value

CLASS_LOSSES = frozenset({"cross_entropy", "nll_loss"})
BINARY_LOSSES = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits"})
REGRESSION_LOSSES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})


ENOUGH_LABELLED = 5  # batches
LABELS_PER_CLASS = 4  # in a batch: from fewer, how often a class is met cannot be told
SORTED = 0.5  # of what equal classes give: batches with less hold few of the classes that the data has


def _number(value: Value) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


@dataclass(slots=True)
class LossSite:
    """A place where a loss is computed."""

    function: str
    source: Source | None
    first_step: int
    last_step: int = -1  # of the calls that told something
    calls: int = 0  # of which there were so many
    first: dict[str, Value] = field(default_factory=dict)
    latest: dict[str, Value] = field(default_factory=dict)
    prediction_min: float = math.inf  # over all calls
    prediction_max: float = -math.inf
    row_sum_min: float = math.inf
    row_sum_max: float = -math.inf
    came_from: Counter[str] = field(default_factory=Counter)
    single: dict[int, int] = field(default_factory=dict)  # class → batches that held it alone
    labelled: int = 0  # batches whose labels were counted
    entropy: float = 0.0  # sum over labelled batches
    spreads: int = 0  # batches whose targets' variance was told
    variance: float = 0.0  # sum over them
    neighbours: int = 0  # single-class batches that came right after another one
    class_changes: int = 0  # of which with another class
    bootstrapped: int = 0  # calls whose target was made from the network's own answers, with their gradients
    first_values: list[tuple[int, float]] = field(default_factory=list)  # (step, value of the loss function)
    _last_class: int = 0
    _last_single: int = -2

    def add(self, step: int, values: dict[str, Value]) -> None:
        self.calls += 1
        self.last_step = step
        if self.calls == 1:
            self.first = dict(values)
        self.latest = values
        low, high = _number(values.get("prediction_min")), _number(values.get("prediction_max"))
        if low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
            self.prediction_min = min(self.prediction_min, low)
            self.prediction_max = max(self.prediction_max, high)
        low, high = _number(values.get("prediction_row_sum_min")), _number(values.get("prediction_row_sum_max"))
        if low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
            self.row_sum_min = min(self.row_sum_min, low)
            self.row_sum_max = max(self.row_sum_max, high)
        made_by = values.get("prediction_from")
        if isinstance(made_by, str):
            self.came_from[made_by] += 1
        self.bootstrapped += values.get("target_bootstraps") is True
        value = _number(values.get("value"))
        if value is not None and len(self.first_values) < 64:
            self.first_values.append((step, value))
        spread = _number(values.get("target_variance"))
        if spread is not None and math.isfinite(spread):
            self.spreads += 1
            self.variance += spread
        self._labels(step, values)

    def add_labels(self, step: int, values: dict[str, Value]) -> None:
        """A batch of which the target alone is known."""
        if not self.calls:
            self.first = self.first or dict(values)
        self._labels(step, values)

    def _labels(self, step: int, values: dict[str, Value]) -> None:
        distinct, low = values.get("target_distinct"), _number(values.get("target_min"))
        if not isinstance(distinct, int) or low is None or self.function not in CLASS_LOSSES:
            return
        self.labelled += 1
        self.entropy += _number(values.get("target_entropy")) or 0.0
        if distinct == 1:
            label = int(low)
            self.single[label] = self.single.get(label, 0) + 1
            if step - self._last_single <= 1:
                self.neighbours += 1
                self.class_changes += self._last_class != label
            self._last_class, self._last_single = label, step

    @property
    def batch(self) -> int:
        """How many samples one call compares."""
        sizes = self.shape_of("target_shape") or self.shape_of("prediction_shape")
        return sizes[0] if sizes else 0

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        text = self.first.get(name)
        return shape(text) if isinstance(text, str) else None

    def number(self, name: str) -> float | None:
        """A fact of the first call, when it is a number."""
        return _number(self.first.get(name))

    @property
    def classes(self) -> int:
        """Of a classification; 0 when unknown."""
        classes = self.first.get("classes")
        if isinstance(classes, int) and not isinstance(classes, bool):
            return classes
        sizes = self.shape_of("prediction_shape")
        return sizes[1] if self.function in CLASS_LOSSES and sizes and len(sizes) >= 2 else 0

    @property
    def traced(self) -> bool:
        """Whether its facts were read from a captured graph: they hold for every call, however few were told."""
        return self.first.get("traced") is True

    @property
    def maker(self) -> Source | None:
        """The line that made the prediction, where a captured graph has told it."""
        file, line, code = (self.first.get(f"prediction_{name}") for name in ("file", "line", "code"))
        return Source(file, line, code=str(code or "")) if isinstance(file, str) and isinstance(line, int) else None

    @property
    def made_by(self) -> str:
        """The operator that made the prediction, when it was the same each time; '' when unknown."""
        if len(self.came_from) != 1:
            return ""
        return next(iter(self.came_from))

    def chance(self) -> float | None:
        """The loss of guessing."""
        if self.function in CLASS_LOSSES and self.classes > 1:
            return math.log(self.classes)
        if self.function in BINARY_LOSSES:
            return math.log(2.0)
        if self.function == "mse_loss":
            return _number(self.first.get("target_variance"))
        return None

    def guessing(self) -> float | None:
        """The same by more than the first batch: how often each class is met, or how far targets are spread."""
        chance = self.chance()
        if self.function == "mse_loss" and chance is not None and self.spreads >= ENOUGH_LABELLED:
            return self.variance / self.spreads
        labels = math.prod(self.shape_of("target_shape") or (0,))
        if chance is None or self.labelled < ENOUGH_LABELLED or labels < LABELS_PER_CLASS * self.classes:
            return chance
        mean = self.entropy / self.labelled
        return mean if mean < chance and mean > SORTED * chance else chance


class LossCalls:
    """All places where losses are computed."""

    def __init__(self) -> None:
        self.sites: dict[tuple[str, str, int], LossSite] = {}

    def follow(self, step: int, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.kind not in ("loss", "labels"):
                continue
            function = event.values.get("function")
            name = function if isinstance(function, str) else event.part
            source = event.source
            key = (name, source.file if source else "", source.line if source else 0)
            site = self.sites.get(key)
            if site is None:
                site = self.sites[key] = LossSite(name, source, step)
            if event.kind == "loss":
                site.add(step, event.values)
            else:
                site.add_labels(step, event.values)

    def __iter__(self) -> Iterator[LossSite]:
        return iter(self.sites.values())

    def main(self) -> LossSite | None:
        """The place that is used the most."""
        return max(self.sites.values(), key=lambda site: site.calls, default=None)

    def chance(self) -> float | None:
        """The loss of guessing, when one loss function is all there is."""
        site = self._only()
        return site.chance() if site is not None else None

    def guessing(self) -> float | None:
        """The same by more than the first batch."""
        site = self._only()
        return site.guessing() if site is not None else None

    def _only(self) -> LossSite | None:
        return self.main() if len({site.function for site in self.sites.values()}) == 1 else None
