"""Conditions that compare measures of a tensor with thresholds, and the measures they share."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from tensight.records import Stats, TensorInfo
from tensight.watchpoints.condition import QUIET, Condition, History, Verdict, finite_note, unjudged

Measure = Callable[[Stats], "float | int | None"]

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}
"""How the end of a setting's name says what it means: `max_gt` holds when the maximum is strictly greater."""


class Test(NamedTuple):
    """One setting that was given: it holds when `holds(measure(stats), threshold)`."""

    name: str
    measure: Measure
    holds: Callable[[float, float], bool]
    threshold: float


class Thresholds(Condition):
    """A condition whose settings compare one measure each; it hits when any holds, and says which."""

    def __init__(self, **given: float) -> None:
        super().__init__(**given)
        self.tests = tuple(
            Test(name, self.measure(name), COMPARISONS[ending], threshold)
            for name, threshold in self.given.items()
            if (ending := name.rpartition("_")[2]) in COMPARISONS
        )

    @abstractmethod
    def measure(self, name: str) -> Measure:
        """The measure that a setting compares; it answers None where there is no value."""

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        verdict = unjudged(now)
        if verdict is not None:
            return verdict
        held: dict[str, tuple[float, float | None]] = {}
        for name, measure, holds, threshold in self.tests:
            actual = measure(now)
            if actual is not None and holds(actual, threshold):
                held[name] = (actual, threshold)
        return Verdict(held, note=finite_note(now)) if held else QUIET

    def gate(self, info: TensorInfo) -> Callable[[Stats], object]:
        if len(self.tests) == 1:
            return _single(self.tests[0])
        gates = [_single(test) for test in self.tests]
        return lambda stats: any(gate(stats) for gate in gates)


def _single(test: Test) -> Callable[[Stats], object]:
    _, measure, holds, threshold = test
    if holds is operator.gt:
        return lambda stats: (value := measure(stats)) is None or value > threshold
    if holds is operator.lt:
        return lambda stats: (value := measure(stats)) is None or value < threshold
    return lambda stats: (value := measure(stats)) is None or holds(value, threshold)


def zero_percentage(stats: Stats) -> float | None:
    """
    >>> zero_percentage(Stats(count=8, zero=2))
    25.0
    """
    finite = stats.finite
    return 100.0 * stats.zero / finite if finite else None


def max_min(stats: Stats) -> float | int | None:
    """Maximum minus minimum; exact for integers.

    >>> max_min(Stats(count=2, min=1, max=2**60))
    1152921504606846975
    """
    if stats.max is None or stats.min is None:
        return None
    return stats.max - stats.min


def abs_max(stats: Stats) -> float | int | None:
    """
    >>> abs_max(Stats(count=2, min=-3.0, max=2.0))
    3.0
    """
    if stats.max is None or stats.min is None:
        return None
    return max(stats.max, -stats.min)


def update_ratio(epsilon: float) -> Measure:
    """mean(abs(now - before)) / (mean(abs(before)) + epsilon), over the same optimizer step."""

    def ratio(stats: Stats) -> float | None:
        change = stats.change
        if change is None or not change.count:
            return None
        return change.abs_mean / (change.before_abs_mean + epsilon)

    return ratio


def bad_values(stats: Stats) -> object:
    """The gate of all conditions on NaN and Inf; an empty tensor passes, to be told that it has no value."""
    return stats.nan or stats.pos_inf or stats.neg_inf or not stats.count
