"""What the network is fed."""

from __future__ import annotations

from tensight.records import Stats, TensorInfo
from tensight.watchpoints.condition import QUIET, Example, History, Setting, Verdict
from tensight.watchpoints.dtypes import is_float
from tensight.watchpoints.thresholds import Measure, Thresholds, max_min

_PIXELS = Stats(count=64, zero=4, positive=60, min=0.0, max=255.0, mean=120.0, abs_mean=120.0, std=70.0)
_NORMAL = Stats(count=64, negative=32, positive=32, min=-3.0, max=3.0, mean=0.02, abs_mean=0.8, std=1.0)
_FLAT = Stats(count=64, positive=64, min=0.5, max=0.5, mean=0.5, abs_mean=0.5, std=0.0)
_TOKENS = TensorInfo(id=0, kind="input", node="", slot="input.0", dtype="int64")


class InputNotNormalised(Thresholds):
    """IN: a floating-point input is far from mean 0 and deviation 1."""

    code = "IN"
    name = "input_not_normalised"
    title = "Input not normalised"
    on = "input:*"
    applies_to = frozenset({"input", "module_input"})
    settings = (
        Setting("abs_of_mean_gt", "absolute value of the mean is greater", "abs", 5.0),
        Setting("std_gt", "standard deviation is greater", "abs", 20.0),
    )
    finds = "A floating-point input has a mean or standard deviation far from those of normalised data."
    matters = "Large inputs make large gradients in the first layer and saturate what follows."
    causes = (
        "Pixels left at 0 to 255, or features in their own units.",
        "A normalisation that is applied in evaluation only, or to another copy of the data.",
    )
    try_ = (
        "Subtract the mean and divide by the standard deviation of the training data.",
        "Put a normalisation layer in front of the network.",
    )
    examples = (
        Example(_PIXELS, hit=True),
        Example(_NORMAL, hit=False),
        Example(_PIXELS, hit=False, info=_TOKENS),
        Example(Stats(count=0), hit=False),
    )

    def measure(self, name: str) -> Measure:
        return _abs_of_mean if name == "abs_of_mean_gt" else _std

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        # Integers are indices or counts: nobody normalises them.
        return super().judge(now, history, info) if is_float(info.dtype) else QUIET


def _abs_of_mean(stats: Stats) -> float | None:
    return None if stats.mean is None else abs(stats.mean)


def _std(stats: Stats) -> float | None:
    return stats.std


class InputConstant(Thresholds):
    """IC: all values of an input or target are the same."""

    code = "IC"
    name = "input_constant"
    title = "Input constant"
    on = "input:*"
    applies_to = frozenset({"input", "target", "module_input"})
    settings = (Setting("max_min_le", "maximum minus minimum is at most", "abs", 0.0),)
    finds = "All values of an input (or, where you set it on targets, of the labels) are the same."
    matters = "A network cannot learn from inputs that do not differ."
    causes = (
        "Data that was not loaded: an array that is still filled with its initial value.",
        "A normalisation that divides by a huge number, or multiplies by zero.",
        "An augmentation or crop that leaves only background.",
        "Batches sorted by class, for labels.",
    )
    try_ = (
        "Look at one raw sample and follow it through the preparation.",
        "Shuffle the data.",
    )
    examples = (
        Example(_FLAT, hit=True),
        Example(_NORMAL, hit=False),
        Example(Stats(count=1, positive=1, min=1.0, max=1.0, mean=1.0, abs_mean=1.0), hit=False),
        Example(Stats(count=0), hit=False),
    )

    def measure(self, name: str) -> Measure:
        return lambda stats: max_min(stats) if stats.finite > 1 else None
