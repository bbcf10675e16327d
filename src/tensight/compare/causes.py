"""What most likely makes a module of two runs differ: one function per cause, the most telling first."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from tensight.compare import words
from tensight.compare.alignment import Alignment, dialect, modules_of
from tensight.compare.moments import Moment
from tensight.compare.preflight import Difference, parameters_of, setting_differences
from tensight.compare.sides import Side
from tensight.diagnosis.rules.data import NanInInput
from tensight.diagnosis.rules.nonfinite import NONFINITE

_SPOIL = NONFINITE | {NanInInput.fault, *NanInInput.also}  # findings that a NaN of the same run comes from
Array = np.ndarray[Any, Any]


class Suspect(msgspec.Struct, frozen=True):
    """A moment that diverged, and all that is known around it."""

    moment: Moment
    a: Side
    b: Side
    alignment: Alignment
    preflight: list[Difference]
    values: tuple[Array, Array] | None = None
    micros: tuple[int, int] = (1, 1)  # backward passes in a step

    @property
    def type(self) -> str:
        module = modules_of(self.a).get(self.moment.module)
        return words.kind_of(module.type if module else self.moment.a.type)

    @property
    def crosses(self) -> bool:
        return dialect(self.a) != dialect(self.b)


def likely(suspect: Suspect) -> str:
    """The likeliest cause in words; '' when nothing speaks for one."""
    for cause in _CAUSES:
        found = cause(suspect)
        if found:
            return found
    return ""


def _not_finite(s: Suspect) -> str:
    a, b = s.moment.stats_a, s.moment.stats_b
    if a.bad == b.bad:
        return ""
    side, stats = ("B", b) if b.bad > a.bad else ("A", a)
    said = " and ".join(f"{count} {word}" for count, word in ((stats.nan, "NaN"), (stats.inf, "infinite")) if count)
    whole = f"{side} has {said} of {stats.count} values here, the other side has not"
    if stats.count == 1:
        whole = f"{side} is {'NaN' if stats.nan else 'infinite'} here, the other side is not"
    own = s.a if side == "A" else s.b
    step = s.moment.step - own.shift
    known = next((one for one in own.first.findings if one.since_step <= step and one.fault in _SPOIL), None)
    return whole + (f"; {side} has a finding of its own since step {known.since_step}: {known.title}" if known else "")


def _start(s: Suspect) -> str:
    if s.moment.stage != "start":
        return ""
    name = s.moment.a.name
    if s.moment.a.dtype != s.moment.b.dtype:
        return f"{name} is {s.moment.a.dtype} in A and {s.moment.b.dtype} in B"
    factor = _factor(s)
    more = sum(1 for one in s.preflight if one.what.startswith("value of ")) - 1
    also = f", as do {more} more" if more > 0 else ""
    if factor:
        return f"{name} of B is {factor:g} times that of A before the first step{also}: weights were not carried over"
    order = "" if s.values is None else _order(*s.values)
    if order:
        return f"{name} of B is that of A {order}"
    return f"{name} differs before the first step{also}: the runs do not start from the same weights"


def _shape(s: Suspect) -> str:
    a, b = s.moment.shape_a, s.moment.shape_b
    if s.moment.stats_a.count == s.moment.stats_b.count:
        return ""
    if "Conv" in s.type or "Pool" in s.type:
        return f"padding, stride or kernel size: the output is {list(a)} in A and {list(b)} in B"
    return f"the shape is {list(a)} in A and {list(b)} in B"


def _input(s: Suspect) -> str:
    if s.moment.stage != "input":
        return ""
    a, b = s.moment.stats_a, s.moment.stats_b
    what = "the input" if s.moment.a.kind == "input" else "the target"
    factor = _factor(s)
    if factor:
        return f"{what} of B is {factor:g} times that of A: one side scales its data and the other does not"
    if a.std and b.std and a.mean is not None and b.mean is not None:
        return (
            f"{what} differs: mean {a.mean:.4g} and spread {a.std:.4g} in A, {b.mean:.4g} and {b.std:.4g} in B: "
            "other data, another order of it, or another normalisation"
        )
    return f"{what} differs: both runs must be fed the same batch"


def _bias(s: Suspect) -> str:
    ours, theirs = parameters_of(s.a, None), parameters_of(s.b, s.alignment)
    for slot in ("bias", "weight"):
        key = (s.moment.module, slot)
        if (key in ours) != (key in theirs):
            return f"{slot} is missing in {'B' if key in ours else 'A'}"
    return ""


def _accumulated(s: Suspect) -> str:
    """Gradients summed over micro-steps against those of one batch."""
    ours, theirs = s.micros
    if ours == theirs:
        return ""
    steps = f"A makes {ours} micro-step{'' if ours == 1 else 's'} and B {theirs}"
    if s.moment.stage == "backward" and s.moment.stats_a.l2 and s.moment.stats_b.l2:
        factor = s.moment.stats_b.l2 / s.moment.stats_a.l2
        if abs(factor * ours / theirs - 1) < 0.05:
            return f"B's gradients are {factor:.3g} times A's: {steps}, and the loss is not divided by them"
        if abs(factor * theirs / ours - 1) < 0.05:
            return f"B's gradients are {factor:.3g} times A's: {steps}; only one micro-step's gradients are left"
    if "BatchNorm" in s.type and s.moment.stage == "forward":
        return f"{steps}: batch norm takes its statistics of each micro-batch alone, which no accumulation makes good"
    if s.moment.stage == "backward":
        return f"{steps}: micro-batches of other sizes, or gradients that are cleared or clipped between them"
    return ""


def _settings(s: Suspect) -> str:
    if s.moment.stage not in ("forward", "backward") and "Norm" not in s.type:
        return ""
    found = setting_differences(s.a, s.b, s.moment.module, s.alignment)
    if "Norm" in s.type and s.moment.stage == "update":
        found = [one for one in found if one[0] == "momentum"]
    return "; ".join(f"{_word(name)} is {a} in A and {b} in B" for name, a, b in found)


def _word(name: str) -> str:
    return {"approximate": "GELU form (approximate)", "p": "dropout probability p", "dim": "axis (dim)"}.get(name, name)


def _types(s: Suspect) -> str:
    ours, theirs = modules_of(s.a), modules_of(s.b)
    one, other = ours.get(s.moment.module), theirs.get(s.alignment.b_of(s.moment.module) or "")
    if one is None or other is None or not s.moment.module or words.kind_of(one.type) == words.kind_of(other.type):
        return ""
    if any(path.startswith(f"{s.moment.module}.") for path in ours):
        return ""  # classes of the user's own have other names in every port
    return f"the module is {one.type} in A and {other.type} in B"


def _mode(s: Suspect) -> str:
    if "Dropout" in s.type and s.moment.stage == "forward":
        a, b = s.moment.stats_a, s.moment.stats_b
        share_a, share_b = a.zero / max(a.count, 1), b.zero / max(b.count, 1)
        if abs(share_a - share_b) > 0.05:
            side = "B" if share_b > share_a else "A"
            low, high = sorted((share_a, share_b))
            return f"dropout is active in {side} only: {high:.0%} zeros against {low:.0%}"
        return "dropout draws other random numbers in each run: set p to 0 or use evaluation mode on both sides"
    modes = [one for one in s.preflight if one.what == "training mode"]
    if modes and s.moment.stage == "forward" and ("Norm" in s.type or "Dropout" in s.type):
        return f"training mode is {modes[0].a} in A and {modes[0].b} in B"
    return ""


def _loss(s: Suspect) -> str:
    if s.moment.a.kind != "loss":
        return ""
    factor = _factor(s)
    if factor and (factor >= 2 or factor <= 0.5):
        return f"the loss of B is {factor:g} times that of A: mean against sum (reduction), or a scale"
    parts = [one for one in s.preflight if one.what.startswith("loss")]
    if parts:
        return "; ".join(f"{one.what} is {one.a} in A and {one.b} in B" for one in parts)
    return "predictions and targets agree, the loss does not: another loss function, reduction or weighting"


def _gradient_of_one(s: Suspect) -> str:
    """A weight that gets a gradient in one run alone, of two that both have looked at gradients in this step."""
    got = []
    for side, info in ((s.a, s.moment.a), (s.b, s.moment.b)):
        seen = {(one.node, one.slot) for one, _ in side.observations(s.moment.step) if one.kind == "gradient"}
        if not seen:
            return ""
        got.append((info.node, info.slot) in seen)
    if got[0] == got[1]:
        return ""
    with_it, without = ("A", "B") if got[0] else ("B", "A")
    return (
        f"it gets a gradient in {with_it} and none in {without}: a detach(), no_grad or frozen parameter in {without},"
        " or a loss that does not depend on it"
    )


def _update(s: Suspect) -> str:
    if s.moment.stage != "update":
        return ""
    parts = [one for one in s.preflight if one.what.startswith("optimizer")]
    if s.moment.a.kind == "buffer":
        return "the running statistics are updated with another momentum (MindSpore's is 1 - PyTorch's)"
    if parts:
        said = "; ".join(f"{one.what} is {one.a} in A and {one.b} in B" for one in parts)
        if any({one.a, one.b} == {"Adam", "AdamW"} for one in parts if one.what == "optimizer"):
            said += ": another form of weight_decay, which AdamW takes off the weights and Adam adds to the gradients"
        return said
    if one_sided := _gradient_of_one(s):
        return one_sided
    return (
        "gradients agree and the updated weights do not: another form of weight decay, learning rate, "
        "clipping or optimizer"
    )


def _axis(s: Suspect) -> str:
    return "softmax over another axis" if "oftmax" in s.type and s.moment.stage == "forward" else ""


def _normalised(s: Suspect) -> str:
    if "BatchNorm" not in s.type or s.moment.stage != "forward":
        return ""
    return "batch norm uses the batch's statistics on one side and the running ones on the other, or another eps"


def _attention(s: Suspect) -> str:
    if "ttention" not in s.type or s.moment.stage != "forward":
        return ""
    return "attention: another scale, mask, axis of the softmax, or projection of queries, keys and values"


def _defaults(s: Suspect) -> str:
    if not s.crosses or s.moment.stage != "forward":
        return ""
    for word, cause in _DEFAULTS.items():
        if word in s.type:
            return cause
    return ""


_DEFAULTS = {
    "LayerNorm": "eps: MindSpore's default is 1e-07, PyTorch's 1e-05",
    "GELU": "GELU form: MindSpore's default is the tanh approximation, PyTorch's the exact one",
    "LeakyReLU": "negative slope: MindSpore's default is 0.2, PyTorch's 0.01",
    "Conv": "another padding (MindSpore's default is pad_mode='same'), transposed weight, or order of channels",
    "Pool": "padding mode of the pooling",
}


def _scaled(s: Suspect) -> str:
    factor = _factor(s)
    return f"B's values are {factor:g} times A's: a scale is missing or doubled" if factor else ""


def _permuted(s: Suspect) -> str:
    if s.moment.stage != "forward" or s.type not in ("Linear", "Conv1d", "Conv2d", "Conv3d", "Embedding"):
        return ""
    return (
        "its statistics of weights and inputs agree and its output does not: a transposed weight, another order of "
        "channels or rows, or another padding"
    )


def _order(a: Array, b: Array) -> str:
    if a.ndim == 2 and a.T.shape == b.shape and np.array_equal(a.T, b):
        return "transposed"
    if a.ndim == 2 and a.size == b.size and np.array_equal(a.T.reshape(-1), b.reshape(-1)):
        return "transposed"
    if a.size == b.size and np.array_equal(np.sort(a, axis=None), np.sort(b, axis=None)):
        return "in another order"
    return ""


def _reordered(s: Suspect) -> str:
    if s.values is None:
        return ""
    order = _order(*s.values)
    return f"B has the values of A {order}" if order else ""


def _factor(s: Suspect) -> float:
    """By what B is A times a constant, as far as statistics can tell; 0 when it is not."""
    a, b = s.moment.stats_a, s.moment.stats_b
    if not a.l2 or not b.l2 or a.count != b.count or a.finite != b.finite:
        return 0.0
    factor = b.l2 / a.l2
    if not math.isfinite(factor) or abs(factor - 1) < 1e-4:
        return 0.0
    for name in ("abs_mean", "std", "max", "min"):
        one, other = getattr(a, name), getattr(b, name)
        if one is None or other is None or abs(float(one) * factor - float(other)) > 1e-4 * abs(b.l2):
            return 0.0
        if name in ("abs_mean", "std") and abs(float(one) * factor - float(other)) > 1e-4 * abs(float(other)) + 1e-12:
            return 0.0
    return float(f"{factor:.4g}")


_CAUSES: tuple[Callable[[Suspect], str], ...] = (
    _not_finite,
    _start,
    _accumulated,
    _bias,
    _shape,
    _input,
    _loss,
    _update,
    _types,
    _settings,
    _mode,
    _axis,
    _defaults,
    _reordered,
    _scaled,
    _permuted,
    _normalised,
    _attention,
)
