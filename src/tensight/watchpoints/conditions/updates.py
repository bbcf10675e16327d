"""Updates over steps, updates lost to rounding, and gradients against their weights."""

from __future__ import annotations

from statistics import median

import msgspec

from tensight.records import Needs, Stats, TensorInfo
from tensight.watchpoints.condition import QUIET, Condition, Example, History, Setting, Verdict, finite_note, unjudged
from tensight.watchpoints.conditions.weights import NO_PREV, changed
from tensight.watchpoints.dtypes import smallest_normal
from tensight.watchpoints.thresholds import update_ratio

_GRADIENT = Stats(count=100, positive=90, zero=10, min=0.0, max=0.1, mean=0.05, abs_mean=0.05)


class UpdateRatio(Condition):
    """UR: the usual update ratio of a weight is outside a band."""

    code = "UR"
    name = "update_ratio"
    title = "Update ratio outside its band"
    on = "weight:*"
    applies_to = frozenset({"weight"})
    settings = (
        Setting("ratio_gt", "median update ratio is greater", "abs", 0.1),
        Setting("ratio_lt", "median update ratio is less", "abs", 1e-7),
        Setting("window", "how many optimizer steps the median is taken over", "count", 20.0),
        Setting("epsilon", "added to the mean of the weight before", "pos", 1e-9),
    )
    finds = "The median of a weight's update ratio over the last steps is outside the band you set."
    matters = "One odd step is noise; a median outside the band says that the learning rate does not fit this layer."
    causes = (
        "A learning rate that does not fit the size of this layer's weights.",
        "A gradient that is far larger or smaller here than in other layers.",
        "A schedule that has reached its end.",
    )
    try_ = (
        "Compare the ratio between layers: all outside means the learning rate, one means the layer.",
        "Aim for a ratio near 0.001.",
    )
    examples = (
        Example(changed(0.2, 0.5), hit=True, settings={"window": 3}, history=History((0, 1), (changed(0.2, 0.5),) * 2)),
        Example(
            changed(0.2, 0.5), hit=False, settings={"window": 3}, history=History((0, 1), (changed(1e-3, 0.5),) * 2)
        ),
        Example(changed(0.2, 0.5), hit=False, settings={"window": 3}),
        Example(Stats(count=0), hit=False),
    )

    def __init__(self, **given: float) -> None:
        super().__init__(**given)
        self.history = int(self.given["window"]) - 1

    def needs(self) -> Needs:
        return Needs(change=True)

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        if not now.count:
            return Verdict(error="no_value", note="the tensor is empty")
        if now.change is None:
            return NO_PREV
        ratio = update_ratio(self.given["epsilon"])
        past = history.stats[-self.history :] if self.history else ()
        ratios = [value for stats in (*past, now) if (value := ratio(stats)) is not None]
        if len(ratios) < min(self.history + 1, 5):
            return QUIET
        middle = median(ratios)
        held: dict[str, tuple[float, float | None]] = {}
        if middle > self.given["ratio_gt"]:
            held["ratio_gt"] = (middle, self.given["ratio_gt"])
        if middle < self.given["ratio_lt"]:
            held["ratio_lt"] = (middle, self.given["ratio_lt"])
        return Verdict(held, note=finite_note(now)) if held else QUIET


class UpdatesLost(Condition):
    """UL: elements with a gradient that kept every bit through an optimizer step."""

    code = "UL"
    name = "updates_lost"
    title = "Updates lost to rounding"
    on = "weight:*"
    applies_to = frozenset({"weight"})
    wants_partner = True
    settings = (Setting("lost_percentage_ge", "percentage of elements whose update was lost is at least", "pct", 90.0),)
    finds = "Most elements of a weight have a gradient and yet kept every bit in the optimizer step."
    matters = "The update is smaller than half the distance to the next number of the dtype, so it is rounded away."
    causes = (
        "Weights held in bfloat16 or float16, with updates below about 0.4 % or 0.05 % of each value.",
        "A learning rate that is very low for the dtype.",
        "The optimizer does not hold this weight, so there was no update at all.",
    )
    try_ = (
        "Keep weights in float32 and compute in low precision (autocast), or use stochastic rounding.",
        "Raise the learning rate.",
        "Check that the optimizer holds this weight.",
    )
    examples = (
        Example(
            changed(1e-9, 0.5, 0, equal=100),
            hit=True,
            history=History(partner=_GRADIENT),
            settings={"lost_percentage_ge": 90},
        ),
        Example(changed(1e-3, 0.5, equal=0), hit=False, history=History(partner=_GRADIENT)),
        Example(changed(1e-3, 0.5, equal=95), hit=False, history=History(partner=_GRADIENT)),
        Example(changed(0.0, 0.5, 0, equal=100), hit=False),
        Example(Stats(count=0), hit=False),
    )

    def needs(self) -> Needs:
        return Needs(change=True)

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        if not now.count:
            return Verdict(error="no_value", note="the tensor is empty")
        if now.change is None:
            return NO_PREV
        gradient = history.partner
        if gradient is None:
            return Verdict(error="no_value", note="its gradient was not observed in this step")
        # At least so many elements had a gradient and did not change, whichever elements the zeros are.
        lost = max(0, now.change.equal - (gradient.zero + gradient.bad))
        percentage = 100.0 * lost / now.count
        threshold = self.given["lost_percentage_ge"]
        if percentage < threshold or not lost:
            return QUIET
        return Verdict({"lost_percentage_ge": (percentage, threshold)}, note=finite_note(now))


class GradientWeightRatio(Condition):
    """GW: a gradient is too large or too small for its weight."""

    code = "GW"
    name = "gradient_weight_ratio"
    title = "Gradient out of proportion to its weight"
    on = "gradient:*"
    applies_to = frozenset({"gradient"})
    wants_partner = True
    settings = (
        Setting("ratio_gt", "ratio is greater", "abs"),
        Setting("ratio_lt", "ratio is less", "abs"),
        Setting("epsilon", "added to the mean of the weight", "pos", 1e-9),
    )
    one_of = ("ratio_gt", "ratio_lt")
    finds = "mean(abs(gradient)) / (mean(abs(weight)) + epsilon) is above or below what you set."
    matters = "It tells layers apart that one learning rate cannot serve."
    causes = (
        "A layer at the far end of a vanishing or exploding gradient.",
        "Weights that were initialised much smaller or larger than those of other layers.",
    )
    try_ = (
        "Compare the ratio over the layers, in order of execution.",
        "Use an optimizer that adapts to each weight, or a learning rate per group.",
    )
    examples = (
        Example(_GRADIENT, hit=True, settings={"ratio_gt": 0.05}, history=History(partner=changed(0.1, 0.5))),
        Example(_GRADIENT, hit=True, settings={"ratio_lt": 0.2}, history=History(partner=changed(0.1, 0.5))),
        Example(_GRADIENT, hit=False, settings={"ratio_gt": 1}, history=History(partner=changed(0.1, 0.5))),
        Example(_GRADIENT, hit=False, settings={"ratio_gt": 1e-3}),
        Example(Stats(count=0), hit=False, settings={"ratio_gt": 1}),
    )

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        verdict = unjudged(now)
        if verdict is not None:
            return verdict
        weight = history.partner
        if weight is None or weight.abs_mean is None or now.abs_mean is None:
            return Verdict(error="no_value", note="its weight was not observed in this step")
        ratio = now.abs_mean / (weight.abs_mean + self.given["epsilon"])
        held: dict[str, tuple[float, float | None]] = {}
        if "ratio_gt" in self.given and ratio > self.given["ratio_gt"]:
            held["ratio_gt"] = (ratio, self.given["ratio_gt"])
        if "ratio_lt" in self.given and ratio < self.given["ratio_lt"]:
            held["ratio_lt"] = (ratio, self.given["ratio_lt"])
        return Verdict(held, note=finite_note(now)) if held else QUIET


_HALF = TensorInfo(id=0, kind="gradient", node="head", slot="weight", dtype="float16")
_TINY = Stats(count=100, zero=60, positive=40, min=0.0, max=1e-6, mean=2e-7, abs_mean=2e-7)


class GradientUnderflow(Condition):
    """GU: a low-precision gradient whose values fall out at the small end of its dtype."""

    code = "GU"
    name = "gradient_underflow"
    title = "Gradient underflow"
    on = "gradient:*, gradient:activation:*"
    applies_to = frozenset({"gradient", "output_gradient", "input_gradient", "operator_gradient"})
    settings = (Setting("zero_percentage_ge", "percentage of zeros is at least", "pct", 50.0),)
    finds = "Much of a gradient is zero, and what is left lies below the smallest number its dtype holds exactly."
    matters = "The zeros are not real: the values were too small for the dtype, and what they would teach is lost."
    causes = (
        "float16 or 8-bit gradients without a loss scale.",
        "A loss scale that has collapsed.",
        "A loss that is divided by more than it should be.",
    )
    try_ = (
        "Use a loss scaler, or raise its initial scale.",
        "Use bfloat16, which has the range of float32.",
    )
    examples = (
        Example(_TINY, hit=True, info=_HALF),
        Example(_TINY, hit=False, info=msgspec.structs.replace(_HALF, dtype="float32")),
        Example(
            Stats(count=100, zero=60, positive=40, min=0.0, max=1.0, mean=0.1, abs_mean=0.1), hit=False, info=_HALF
        ),
        Example(Stats(count=0), hit=False, info=_HALF),
    )

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        verdict = unjudged(now)
        if verdict is not None:
            return verdict
        smallest, filled = smallest_normal(info.dtype), now.finite - now.zero
        if smallest is None or now.abs_mean is None or not filled:
            return QUIET
        percentage, threshold = 100.0 * now.zero / now.finite, self.given["zero_percentage_ge"]
        if percentage < threshold or now.abs_mean * now.finite / filled >= smallest:
            return QUIET
        return Verdict({"zero_percentage_ge": (percentage, threshold)}, note=finite_note(now))
