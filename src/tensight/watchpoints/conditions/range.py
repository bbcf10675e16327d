"""How values spread over a range: any tensor, and activations."""

from __future__ import annotations

from collections.abc import Mapping

from tensight.errors import SpecError
from tensight.records import Needs, Stats, TensorInfo, Within
from tensight.watchpoints.condition import QUIET, Example, History, Setting, Verdict
from tensight.watchpoints.thresholds import Measure, Thresholds, max_min

_SHARES = ("range_percentage_lt", "range_percentage_gt")
_BOUNDS = ("range_start_inclusive", "range_end_inclusive")
_UNIT = {"range_start_inclusive": 0, "range_end_inclusive": 1}


def _stats(inside: int, start: float = 0.0, end: float = 1.0) -> Stats:
    return Stats(
        count=100, positive=100, min=0.5, max=9.0, mean=1.0, abs_mean=1.0, within=(Within(start, end, inside),)
    )


class _Range(Thresholds):
    settings = (
        Setting("range_percentage_lt", "percentage of values inside the range is less", "pct"),
        Setting("range_percentage_gt", "percentage of values inside the range is greater", "pct"),
        Setting("range_start_inclusive", "lower end of the range, included"),
        Setting("range_end_inclusive", "upper end of the range, included"),
        Setting("max_min_lt", "maximum minus minimum is less", "pos"),
        Setting("max_min_gt", "maximum minus minimum is greater", "abs"),
    )
    one_of = ("range_percentage_lt", "range_percentage_gt", "max_min_lt", "max_min_gt")
    examples = (
        Example(_stats(5), hit=True, settings={"range_percentage_lt": 10, **_UNIT}),
        Example(_stats(95), hit=True, settings={"range_percentage_gt": 90, **_UNIT}),
        Example(_stats(50), hit=True, settings={"max_min_gt": 8}),
        Example(_stats(50), hit=True, settings={"max_min_lt": 9}),
        Example(_stats(10), hit=False, settings={"range_percentage_lt": 10, **_UNIT}),
        Example(_stats(90), hit=False, settings={"range_percentage_gt": 90, "max_min_gt": 8.5, **_UNIT}),
        Example(Stats(count=0), hit=False, settings={"range_percentage_lt": 10, **_UNIT}),
    )

    @classmethod
    def accept_together(cls, values: Mapping[str, float]) -> None:
        shares = [name for name in _SHARES if name in values]
        bounds = [name for name in _BOUNDS if name in values]
        if shares and len(bounds) < 2:
            raise SpecError(f"{cls.code}: {shares[0]} needs both {_BOUNDS[0]} and {_BOUNDS[1]}.")
        if bounds and not shares:
            raise SpecError(f"{cls.code}: {bounds[0]} needs {_SHARES[0]} or {_SHARES[1]} beside it.")
        if shares and values[_BOUNDS[0]] > values[_BOUNDS[1]]:
            raise SpecError(
                f"{cls.code}: {_BOUNDS[0]} must not be greater than {_BOUNDS[1]} "
                f"({values[_BOUNDS[0]]:g} > {values[_BOUNDS[1]]:g})."
            )

    def _bounds(self) -> tuple[float, float] | None:
        if _BOUNDS[0] not in self.given:
            return None
        return self.given[_BOUNDS[0]], self.given[_BOUNDS[1]]

    def needs(self) -> Needs:
        bounds = self._bounds()
        return Needs() if bounds is None else Needs(ranges=(bounds,))

    def measure(self, name: str) -> Measure:
        bounds = self._bounds()
        if name in _SHARES and bounds is not None:
            return range_percentage(*bounds)
        return max_min

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        verdict = super().judge(now, history, info)
        if verdict is not QUIET:
            return verdict
        bounds = self._bounds()
        if bounds is None or range_percentage(*bounds)(now) is not None:
            return QUIET
        note = f"the values in [{bounds[0]:g}, {bounds[1]:g}] were not counted, and the tensor was not kept"
        return Verdict(error="no_value", note=note)


def range_percentage(start: float, end: float) -> Measure:
    """The percentage of finite values inside [start, end]; None where the pass did not count them.

    Smallest and largest value decide where all of them, or none, lie inside.
    """

    def percentage(stats: Stats) -> float | None:
        finite = stats.count - stats.nan - stats.pos_inf - stats.neg_inf
        if finite:
            for within in stats.within:
                if within.start == start and within.end == end:
                    return 100.0 * within.count / finite
            if stats.min is not None and stats.max is not None:
                if stats.min >= start and stats.max <= end:
                    return 100.0
                if stats.max < start or stats.min > end:
                    return 0.0
        return None

    return percentage


class TensorRange(_Range):
    """TR: how many values lie inside a range, or how far apart they are."""

    code = "TR"
    name = "tensor_range"
    title = "Tensor range"
    finds = "Too few or too many values of a tensor lie inside a range, or its values lie too close or too far apart."
    matters = "Values outside the range a later operator expects are cut, saturate or overflow."
    causes = (
        "Inputs or labels with another scale than the network was made for.",
        "A layer that has collapsed to nearly one value, or whose values drift apart.",
        "A wrong or missing normalisation.",
    )
    try_ = (
        "Look at the histogram and the history of this tensor, then at the tensor before it.",
        "Check scaling of the data and the normalisation layers.",
    )


class ActivationRange(_Range):
    """AR: how many activations lie inside a range, or how far apart they are."""

    code = "AR"
    name = "activation_range"
    title = "Activation range"
    on = "activation:*"
    applies_to = frozenset({"activation"})
    finds = "Too few or too many activations lie inside a range: units that are saturated or dead."
    matters = "A saturated sigmoid or tanh and a dead relu pass no gradient back: the layers before stop learning."
    causes = (
        "Weights or inputs that are too large, so that every unit is at the flat end.",
        "A learning rate that is too high pushed biases so far that relu never opens again.",
        "A missing normalisation in front of the activation.",
    )
    try_ = (
        "Look at the input of the activation: its mean and spread should be near 0 and 1.",
        "Lower the learning rate, normalise, or use leaky relu, gelu or silu.",
        "Check the initialisation of the layer in front.",
    )
