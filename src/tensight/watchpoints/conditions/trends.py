"""A tensor against its own running history: spikes, drift and plateaus."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from statistics import fmean, median
from typing import ClassVar

from tensight.records import Stats, TensorInfo
from tensight.watchpoints.condition import QUIET, Condition, Example, History, Setting, Verdict, finite_note, unjudged

ENOUGH = 5
"""So many earlier values make a history; a shorter one is not judged."""


def sized(value: float) -> Stats:
    """Statistics of a tensor of one value, for examples.

    >>> sized(-2.0).abs_mean
    2.0
    """
    size = abs(value)
    signs = (1, 0, 0) if value == 0 else (0, 0, 1) if value > 0 else (0, 1, 0)
    return Stats(1, 0, 0, 0, *signs, min=value, max=value, mean=value, abs_mean=size, std=0.0, l2=size)


def past(*values: float) -> History:
    """The history of a tensor of one value, for examples."""
    return History(tuple(range(len(values))), tuple(sized(value) for value in values))


class Windowed(Condition):
    """A condition on one statistic over a window of the tensor's history."""

    statistic: ClassVar[str] = "abs_mean"

    def __init__(self, **given: float) -> None:
        super().__init__(**given)
        self.history = int(self.given["window"])

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        verdict = unjudged(now)
        if verdict is not None:
            return verdict
        value: float | None = getattr(now, self.statistic)
        if value is None:
            return QUIET
        earlier = history.stats[-self.history :]
        values: list[float] = [seen for stats in earlier if (seen := getattr(stats, self.statistic)) is not None]
        held = self.compare(value, values)
        return Verdict(held, note=finite_note(now)) if held else QUIET

    @abstractmethod
    def compare(self, value: float, earlier: Sequence[float]) -> dict[str, tuple[float, float | None]]:
        """What held of the value now against earlier ones, oldest first; at most `window` of them."""


class _Spike(Windowed):
    settings = (
        Setting("times_gt", "so many times the median of its history", "pos", 10.0),
        Setting("window", "how many earlier observations the median is taken over", "count", 20.0),
    )
    examples = (
        Example(sized(20.0), hit=True, history=past(1.0, 1.1, 0.9, 1.0, 1.2)),
        Example(sized(9.0), hit=False, history=past(1.0, 1.1, 0.9, 1.0, 1.2)),
        Example(sized(20.0), hit=False, history=past(1.0, 1.1)),
        Example(Stats(count=0), hit=False),
    )

    def compare(self, value: float, earlier: Sequence[float]) -> dict[str, tuple[float, float | None]]:
        if len(earlier) < min(self.history, ENOUGH):
            return {}
        middle = median(earlier)
        if middle <= 0 or value / middle <= self.given["times_gt"]:
            return {}
        return {"times_gt": (value / middle, self.given["times_gt"])}


class TensorSpike(_Spike):
    """SP: a tensor is suddenly far larger than in its own history."""

    code = "SP"
    name = "tensor_spike"
    title = "Tensor spike"
    finds = "The mean of a tensor's absolute values is many times the median of its own recent history."
    matters = "A sudden jump is where a divergence starts, long before anything becomes NaN."
    causes = (
        "A batch with an outlier.",
        "An update that was too large one step before.",
        "A change of the learning rate.",
    )
    try_ = (
        "Look at the batch of this step and at the updates of the step before.",
        "Clip gradients; warm up after each change of the learning rate.",
    )


class GradientSpike(_Spike):
    """GS: the norm of a gradient is suddenly far larger than in its own history."""

    code = "GS"
    name = "gradient_spike"
    title = "Gradient spike"
    on = "gradient:*"
    applies_to = frozenset({"gradient", "output_gradient", "input_gradient", "operator_gradient"})
    statistic = "l2"
    finds = "The l2 norm of a gradient is many times the median of its own recent history."
    matters = "One update with it can undo many good ones, and it fills an adaptive optimizer's memory."
    causes = (
        "A batch with an outlier or wrong labels.",
        "A region of the loss that is steep: learning rate too high.",
        "Gradients that were not cleared before this backward pass.",
    )
    try_ = (
        "Look at the batch of this step.",
        "Clip gradients by norm, near the usual norm that the history shows.",
    )


class TensorDrift(Windowed):
    """DR: the size of a tensor has moved slowly and far."""

    code = "DR"
    name = "tensor_drift"
    title = "Tensor drift"
    settings = (
        Setting("times_gt", "older and newer half of the window differ by so many times", "pos", 10.0),
        Setting("window", "how many earlier observations", "count", 100.0),
    )
    finds = "The mean of a tensor's absolute values in the newer half of its history is many times that of the older."
    matters = "Slow growth or decay ends in overflow or in silence, and no single step shows it."
    causes = (
        "Weights that grow without weight decay, or decay without learning.",
        "A residual stream or running statistic that is not bounded.",
        "Input data that changes over the course of training.",
    )
    try_ = (
        "Plot the history of this tensor and of the weight in front of it.",
        "Add weight decay or normalisation; or lower the decay.",
    )
    examples = (
        Example(sized(40.0), hit=True, settings={"window": 4}, history=past(1.0, 1.0, 30.0, 30.0)),
        Example(sized(0.01), hit=True, settings={"window": 4}, history=past(1.0, 1.0, 0.01, 0.01)),
        Example(sized(1.0), hit=False, settings={"window": 4}, history=past(1.0, 1.0, 1.0, 1.0)),
        Example(sized(40.0), hit=False, settings={"window": 4}, history=past(1.0, 30.0)),
        Example(Stats(count=0), hit=False),
    )

    def compare(self, value: float, earlier: Sequence[float]) -> dict[str, tuple[float, float | None]]:
        if len(earlier) < self.history:
            return {}
        values = [*earlier, value]
        older, newer = fmean(values[: len(values) // 2]), fmean(values[len(values) // 2 :])
        if older <= 0 or newer <= 0:
            return {}
        times = max(older / newer, newer / older)
        return {"times_gt": (times, self.given["times_gt"])} if times > self.given["times_gt"] else {}


class TensorPlateau(Windowed):
    """PL: the size of a tensor has not moved for a whole window."""

    code = "PL"
    name = "tensor_plateau"
    title = "Tensor plateau"
    settings = (
        Setting("relative_range_lt", "(max - min) / mean over the window is less", "pos", 1e-6),
        Setting("window", "how many earlier observations", "count", 20.0),
    )
    finds = "The mean of a tensor's absolute values has stayed the same over its recent history."
    matters = "What does not change from batch to batch depends neither on the data nor on training."
    causes = (
        "The same batch in every step.",
        "Weights that are not updated.",
        "Inputs that do not reach this tensor.",
    )
    try_ = (
        "Look at the inputs of the last steps: are they different?",
        "Look at the weights before this tensor: do they change?",
    )
    examples = (
        Example(sized(1.0), hit=True, settings={"window": 3}, history=past(1.0, 1.0, 1.0)),
        Example(sized(1.0), hit=False, settings={"window": 3}, history=past(1.0, 1.1, 1.0)),
        Example(sized(1.0), hit=False, settings={"window": 3}, history=past(1.0)),
        Example(Stats(count=0), hit=False),
    )

    def compare(self, value: float, earlier: Sequence[float]) -> dict[str, tuple[float, float | None]]:
        if len(earlier) < self.history:
            return {}
        values = [*earlier, value]
        middle = fmean(values)
        spread = (max(values) - min(values)) / middle if middle else 0.0
        threshold = self.given["relative_range_lt"]
        return {"relative_range_lt": (spread, threshold)} if spread < threshold else {}
