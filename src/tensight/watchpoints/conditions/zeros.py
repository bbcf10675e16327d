"""Tensors of zeros: all at once, or activations that stay off."""

from __future__ import annotations

from collections.abc import Callable

from tensight.records import Stats, TensorInfo
from tensight.watchpoints.condition import QUIET, Condition, Example, History, Setting, Verdict, finite_note, unjudged
from tensight.watchpoints.thresholds import Measure, Thresholds, zero_percentage


def _zeros(zero: int, count: int = 100) -> Stats:
    return Stats(count=count, zero=zero, positive=count - zero, min=0.0, max=1.0, mean=0.1, abs_mean=0.1)


class TensorAllZero(Thresholds):
    """TZ: a share of a tensor's values is zero."""

    code = "TZ"
    name = "tensor_all_zero"
    title = "Tensor all zero"
    settings = (Setting("zero_percentage_ge", "percentage of zeros is at least", "pct", 100.0),)
    finds = "A tensor is zero, or more of it than you allow."
    matters = "Zeros carry no information forward and no gradient back."
    causes = (
        "Units that are dead, or masked away altogether.",
        "A weight that was initialised to zero.",
        "A gradient that does not reach this tensor.",
        "Data that was not loaded: a buffer that is still empty.",
    )
    try_ = (
        "Look at the input of the operator that made it: zeros there come from before.",
        "For a gradient, follow it from the loss: where it becomes zero is the cause.",
        "Check masks, dropout probability and initialisation.",
    )
    examples = (
        Example(_zeros(100), hit=True),
        Example(_zeros(60), hit=True, settings={"zero_percentage_ge": 60}),
        Example(Stats(count=4, nan=2, zero=2, min=0.0, max=0.0, mean=0.0, abs_mean=0.0), hit=True),
        Example(_zeros(99), hit=False),
        Example(Stats(count=0), hit=False),
        Example(Stats(count=2, nan=2), hit=False),
    )

    def measure(self, name: str) -> Measure:
        return zero_percentage

    def gate(self, info: TensorInfo) -> Callable[[Stats], object]:
        threshold = self.given["zero_percentage_ge"]
        if threshold == 100:
            return lambda stats: not stats.positive and not stats.negative
        return super().gate(info)


class ActivationDead(Condition):
    """AD: an activation that was nearly all zero for many steps."""

    code = "AD"
    name = "activation_dead"
    title = "Activation dead"
    on = "activation:*"
    applies_to = frozenset({"activation", "output", "operator"})
    settings = (
        Setting("zero_percentage_ge", "percentage of zeros is at least, every time", "pct", 99.0),
        Setting("window", "how many observations in a row", "count", 10.0),
    )
    finds = "An activation has been nearly all zero in each of the last observations."
    matters = "Units that never open get no gradient, so they do not come back by themselves."
    causes = (
        "One too large update pushed the biases far below zero.",
        "A learning rate that is too high.",
        "Inputs of the layer that are all negative, or not normalised.",
    )
    try_ = (
        "Find the step where the share of zeros rose, and look at the update before it.",
        "Lower the learning rate or warm it up; use leaky relu, gelu or silu.",
        "Normalise in front of the activation.",
    )
    examples = (
        Example(_zeros(100), hit=True, settings={"window": 3}, history=History((0, 1), (_zeros(100), _zeros(99)))),
        Example(_zeros(100), hit=False, settings={"window": 3}, history=History((0, 1), (_zeros(50), _zeros(99)))),
        Example(_zeros(100), hit=False, settings={"window": 3}, history=History((0,), (_zeros(100),))),
        Example(Stats(count=0), hit=False),
    )

    def __init__(self, **given: float) -> None:
        super().__init__(**given)
        self.history = int(self.given["window"]) - 1

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        verdict = unjudged(now)
        if verdict is not None:
            return verdict
        threshold = self.given["zero_percentage_ge"]
        if len(history.stats) < self.history:
            return QUIET
        past = history.stats[-self.history :] if self.history else ()
        shares = [zero_percentage(stats) for stats in (*past, now)]
        least = min((share for share in shares if share is not None), default=None)
        if least is None or None in shares or least < threshold:
            return QUIET
        return Verdict({"zero_percentage_ge": (least, threshold)}, note=finite_note(now))
