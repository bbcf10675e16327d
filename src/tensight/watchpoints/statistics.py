"""The statistics that expressions may name."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

from tensight.records import Stats
from tensight.watchpoints.thresholds import Measure, abs_max, max_min, update_ratio, zero_percentage


class Statistic(NamedTuple):
    """A name an expression may use, and what it stands for."""

    measure: Measure
    help: str
    counts: bool = False  # known also where nothing in the tensor is finite
    change: bool = False  # needs the value before the optimizer step


def _of_change(name: str) -> Measure:
    read = attrgetter(name)
    return lambda stats: None if stats.change is None else read(stats.change)


def _percentage(read: Measure) -> Measure:
    def percentage(stats: Stats) -> float | None:
        count = read(stats)
        return 100.0 * count / stats.count if stats.count and count is not None else None

    return percentage


STATISTICS: dict[str, Statistic] = {
    "min": Statistic(attrgetter("min"), "smallest finite value"),
    "max": Statistic(attrgetter("max"), "largest finite value"),
    "mean": Statistic(attrgetter("mean"), "mean of the finite values"),
    "abs_mean": Statistic(attrgetter("abs_mean"), "mean of their absolute values"),
    "abs_max": Statistic(abs_max, "largest absolute value"),
    "max_min": Statistic(max_min, "max minus min"),
    "std": Statistic(attrgetter("std"), "standard deviation"),
    "l2": Statistic(attrgetter("l2"), "l2 norm"),
    "zero_percentage": Statistic(zero_percentage, "percentage of zeros among the finite values"),
    "count": Statistic(attrgetter("count"), "number of values", counts=True),
    "zero": Statistic(attrgetter("zero"), "number of zeros", counts=True),
    "negative": Statistic(attrgetter("negative"), "number of negative values", counts=True),
    "positive": Statistic(attrgetter("positive"), "number of positive values", counts=True),
    "nan": Statistic(attrgetter("nan"), "number of NaN", counts=True),
    "inf": Statistic(attrgetter("inf"), "number of Inf of either sign", counts=True),
    "pos_inf": Statistic(attrgetter("pos_inf"), "number of +Inf", counts=True),
    "neg_inf": Statistic(attrgetter("neg_inf"), "number of -Inf", counts=True),
    "bad": Statistic(attrgetter("bad"), "number of NaN and Inf", counts=True),
    "bad_percentage": Statistic(_percentage(attrgetter("bad")), "percentage of NaN and Inf", counts=True),
    "finite": Statistic(attrgetter("finite"), "number of finite values", counts=True),
    "update_ratio": Statistic(update_ratio(1e-9), "mean(abs(update)) / mean(abs(weight before))", change=True),
    "update_abs_mean": Statistic(_of_change("abs_mean"), "mean of the absolute update", change=True),
    "update_abs_max": Statistic(_of_change("abs_max"), "largest absolute update", change=True),
    "unchanged": Statistic(_of_change("equal"), "number of elements that kept every bit", change=True),
}
