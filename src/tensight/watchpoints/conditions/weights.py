"""Weights: how they start, and how much an optimizer step changes them."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from tensight.records import Change, Needs, Stats, TensorInfo
from tensight.watchpoints.condition import QUIET, Condition, Example, History, Setting, Verdict, finite_note
from tensight.watchpoints.thresholds import Measure, Thresholds, update_ratio, zero_percentage

NO_PREV = Verdict(error="no_prev", note="no value from before the optimizer step was kept")


def changed(abs_mean: float, before: float, moved: int = 100, equal: int = 0, abs_max: float | None = None) -> Stats:
    """Statistics of a weight of 100 values, for examples."""
    change = Change(100, abs_mean, abs_mean if abs_max is None else abs_max, before, moved, equal)
    return Stats(count=100, positive=100, min=0.1, max=1.0, mean=0.5, abs_mean=0.5, change=change)


class WeightInitialization(Thresholds):
    """WI: how a weight starts."""

    code = "WI"
    name = "weight_initialization"
    title = "Weight initialisation"
    on = "weight:*"
    applies_to = frozenset({"weight", "frozen", "buffer"})
    only_before_updates = True
    settings = (
        Setting("zero_percentage_ge", "percentage of zeros is at least", "pct", 100.0),
        Setting("max_gt", "maximum is greater"),
        Setting("min_lt", "minimum is less"),
    )
    finds = "Before the first update a weight is zero, or outside the range you set."
    matters = "Units that start the same stay the same; weights that start too large saturate what follows."
    causes = (
        "An initialiser that fills with zeros or another constant.",
        "A standard deviation that was set by hand and does not fit the width of the layer.",
        "A checkpoint that was loaded only in part.",
    )
    try_ = (
        "Use the initialisation made for the activation: Kaiming for relu, Xavier for tanh.",
        "Zero is right for biases, norm shifts and the last layer of a residual branch: leave those out.",
        "Check the list of missing keys when loading a checkpoint.",
    )
    examples = (
        Example(Stats(count=4, zero=4, min=0.0, max=0.0, mean=0.0, abs_mean=0.0), hit=True),
        Example(
            Stats(count=4, positive=4, min=1.0, max=30.0, mean=9.0, abs_mean=9.0), hit=True, settings={"max_gt": 10}
        ),
        Example(
            Stats(count=4, negative=4, min=-9.0, max=-1.0, mean=-4.0, abs_mean=4.0), hit=True, settings={"min_lt": -5}
        ),
        Example(Stats(count=4, zero=3, positive=1, min=0.0, max=1.0, mean=0.25, abs_mean=0.25), hit=False),
        Example(Stats(count=0), hit=False),
        Example(changed(0.1, before=0.0), hit=True),
        Example(changed(0.1, before=0.1), hit=False, settings={"max_gt": 0.5}),
    )

    def measure(self, name: str) -> Measure:
        # A weight seen only after the step tells of its start by what is known of the value before it.
        if name == "zero_percentage_ge":
            return _starting_zero_percentage
        return _starting(attrgetter(name.rpartition("_")[0]))


def _starting_zero_percentage(stats: Stats) -> float | None:
    if _at_start(stats):
        return zero_percentage(stats)
    return 100.0 if stats.change is not None and stats.change.before_abs_mean == 0 else 0.0


def _starting(measure: Measure) -> Measure:
    return lambda stats: measure(stats) if _at_start(stats) else None


def _at_start(stats: Stats) -> bool:
    return stats.change is None or stats.change.equal == stats.count


class WeightNotChanged(Condition):
    """WNC: an optimizer step left a weight as it was."""

    code = "WNC"
    name = "weight_not_changed"
    title = "Weight not changed"
    on = "weight:*"
    applies_to = frozenset({"weight"})
    settings = (
        Setting("rtol", "relative tolerance", "abs", 1e-5),
        Setting("atol", "absolute tolerance", "abs", 1e-8),
    )
    finds = "In an optimizer step no element moved: abs(now - before) <= atol + rtol * abs(before) for all of them."
    matters = "A trainable weight that does not move does not learn."
    causes = (
        "The optimizer does not hold this weight.",
        "Its gradient is zero or missing: a detached or unused part of the network.",
        "The learning rate is zero or far too low.",
        "The update is smaller than the rounding of the weight's dtype.",
        "A loss scaler left the step out.",
    )
    try_ = (
        "Check that the weight is in optimizer.param_groups, and in no stale copy of the model.",
        "Look at its gradient in the same step: zero, tiny or healthy?",
        "Print the learning rate that the scheduler sets.",
        "Keep weights in float32 and only compute in low precision.",
    )
    examples = (
        Example(changed(1e-9, before=0.5, moved=0, equal=90), hit=True),
        Example(changed(0.0, before=0.5, moved=0, equal=100), hit=True, settings={"rtol": 0, "atol": 0}),
        Example(changed(1e-3, before=0.5, moved=1), hit=False),
        Example(Stats(count=4, positive=4, min=1.0, max=1.0, mean=1.0, abs_mean=1.0), hit=False),
        Example(Stats(count=0), hit=False),
    )

    def needs(self) -> Needs:
        return Needs(change=True, rtol=self.given["rtol"], atol=self.given["atol"])

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        if not now.count:
            return Verdict(error="no_value", note="the tensor is empty")
        if now.change is None:
            return NO_PREV
        moved = self._moved(now.change, now.count)
        if moved is None:
            note = f"the change was counted with rtol {now.change.rtol:g} and atol {now.change.atol:g}"
            return Verdict(error="no_value", note=note)
        if moved:
            return QUIET
        held: dict[str, tuple[float, float | None]] = {}
        for name in ("rtol", "atol"):
            held[name] = (now.change.abs_max, self.given[name])
        notes = (f"the largest change of an element is {now.change.abs_max:g}", finite_note(now))
        return Verdict(held, note="; ".join(filter(None, notes)))

    def _moved(self, change: Change, count: int) -> bool | None:
        """Whether any element moved, also where another watchpoint's tolerances were counted and decide it."""
        rtol, atol = self.given["rtol"], self.given["atol"]
        if change.equal == count or (change.abs_max == 0 and change.count == count):
            return False
        if change.rtol <= rtol and change.atol <= atol and not change.moved:
            return False
        if change.rtol >= rtol and change.atol >= atol and change.moved:
            return True
        # The largest change decides alone where it is inside the absolute tolerance, or where there is no other.
        if change.count == count and (change.abs_max <= atol or rtol == 0):
            return change.abs_max > atol
        return None

    def gate(self, info: TensorInfo) -> Callable[[Stats], object]:
        rtol, atol = self.given["rtol"], self.given["atol"]

        def still(stats: Stats) -> bool:
            change = stats.change
            return change is None or not change.moved or change.rtol != rtol or change.atol != atol

        return still


class _UpdateRatio(Thresholds):
    """mean(abs(now - before)) / (mean(abs(before)) + epsilon) of one optimizer step."""

    on = "weight:*"
    applies_to = frozenset({"weight"})

    def needs(self) -> Needs:
        return Needs(change=True)

    def measure(self, name: str) -> Measure:
        return update_ratio(self.given["epsilon"])

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        if now.count and now.change is None:
            return NO_PREV
        if now.change is not None and not now.change.count:
            return Verdict(error="nan" if now.nan else "inf", note="no element was finite before and after the step")
        return super().judge(now, history, info)


_EPSILON = Setting(
    "epsilon", "added to the mean of the weight before, so that a zero weight can be judged", "pos", 1e-9
)


class WeightChangeTooLarge(_UpdateRatio):
    """WCL: an optimizer step changes a weight too much."""

    code = "WCL"
    name = "weight_change_too_large"
    title = "Weight change too large"
    settings = (Setting("abs_mean_update_ratio_gt", "update ratio is greater", "abs", 0.1), _EPSILON)
    finds = "An optimizer step changed a weight by a large part of itself."
    matters = "Steps this large jump over what the gradient knows; the loss jumps or diverges."
    causes = (
        "A learning rate that is too high, or no warm-up.",
        "A gradient that is far larger than usual.",
        "A weight that starts at or near zero, where any step is a large part.",
    )
    try_ = (
        "Lower the learning rate; a ratio near 0.001 is usual.",
        "Warm the learning rate up; clip gradients.",
        "See whether one layer stands out: give it its own learning rate.",
    )
    examples = (
        Example(changed(0.2, before=0.5), hit=True),
        Example(changed(0.05, before=0.5), hit=False),
        Example(changed(0.2, before=0.5), hit=False, settings={"abs_mean_update_ratio_gt": 1}),
        Example(Stats(count=4, positive=4, min=1.0, max=1.0, mean=1.0, abs_mean=1.0), hit=False),
        Example(Stats(count=0), hit=False),
    )


class WeightChangeTooSmall(_UpdateRatio):
    """WCS: an optimizer step changes a weight too little."""

    code = "WCS"
    name = "weight_change_too_small"
    title = "Weight change too small"
    settings = (Setting("abs_mean_update_ratio_lt", "update ratio is less", "abs", 1e-4), _EPSILON)
    finds = "An optimizer step changed a weight by a tiny part of itself."
    matters = "At this pace the weight stays where it was initialised."
    causes = (
        "A learning rate that is too low, or has decayed to nearly nothing.",
        "A gradient that has vanished on its way to this layer.",
        "Gradient clipping with a norm that is too small.",
        "Low precision that rounds most of the update away.",
    )
    try_ = (
        "Raise the learning rate; a ratio near 0.001 is usual.",
        "Look at the gradient of this weight and at those nearer to the loss.",
        "Check the clipping norm and the schedule.",
    )
    examples = (
        Example(changed(1e-6, before=0.5), hit=True),
        Example(changed(1e-3, before=0.5), hit=False),
        Example(Stats(count=4, positive=4, min=1.0, max=1.0, mean=1.0, abs_mean=1.0), hit=False),
        Example(Stats(count=0), hit=False),
    )
