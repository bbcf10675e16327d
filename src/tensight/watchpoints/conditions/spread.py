"""Standard deviation, norm, and activations that have collapsed to one value."""

from __future__ import annotations

from operator import attrgetter

from tensight.records import Stats
from tensight.watchpoints.condition import Example, Setting
from tensight.watchpoints.thresholds import Measure, Thresholds

_PLAIN = Stats(count=4, negative=2, positive=2, min=-2.0, max=2.0, mean=0.0, abs_mean=1.5, std=1.6, l2=3.2)


class TensorSpread(Thresholds):
    """SD: the standard deviation of a tensor is outside a band."""

    code = "SD"
    name = "tensor_spread"
    title = "Standard deviation"
    settings = (
        Setting("std_gt", "standard deviation is greater", "abs"),
        Setting("std_lt", "standard deviation is less", "abs"),
    )
    one_of = ("std_gt", "std_lt")
    finds = "A tensor's standard deviation is above or below what you set."
    matters = "A spread that grows or shrinks from layer to layer is the early sign of exploding or vanishing signals."
    causes = (
        "An initialisation that does not keep the variance.",
        "A missing or misplaced normalisation.",
        "Inputs that are not normalised.",
    )
    try_ = (
        "Compare the standard deviation over the layers, in order of execution.",
        "Use the initialisation made for the activation, and normalise.",
    )
    examples = (
        Example(_PLAIN, hit=True, settings={"std_gt": 1}),
        Example(_PLAIN, hit=True, settings={"std_lt": 2}),
        Example(_PLAIN, hit=False, settings={"std_gt": 1.6, "std_lt": 1.6}),
        Example(Stats(count=0), hit=False, settings={"std_lt": 1}),
    )

    def measure(self, name: str) -> Measure:
        return attrgetter("std")


class TensorNorm(Thresholds):
    """L2: the l2 norm of a tensor is outside a band."""

    code = "L2"
    name = "tensor_norm"
    title = "l2 norm"
    settings = (
        Setting("l2_gt", "l2 norm is greater", "abs"),
        Setting("l2_lt", "l2 norm is less", "abs"),
    )
    one_of = ("l2_gt", "l2_lt")
    finds = "A tensor's l2 norm is above or below what you set."
    matters = "The norm is what gradient clipping and weight decay act on."
    causes = (
        "Gradients or weights that explode or vanish.",
        "A clipping norm that does not fit this network.",
    )
    try_ = (
        "Look at the history of the norm, and set the clipping norm near its usual value.",
        "Lower the learning rate where weights grow without end.",
    )
    examples = (
        Example(_PLAIN, hit=True, settings={"l2_gt": 3}),
        Example(_PLAIN, hit=True, settings={"l2_lt": 4}),
        Example(_PLAIN, hit=False, settings={"l2_gt": 3.2, "l2_lt": 3.2}),
        Example(Stats(count=0), hit=False, settings={"l2_lt": 1}),
    )

    def measure(self, name: str) -> Measure:
        return attrgetter("l2")


class ActivationCollapsed(Thresholds):
    """AC: all values of an activation or output are nearly the same."""

    code = "AC"
    name = "activation_collapsed"
    title = "Activation collapsed"
    on = "output:*"
    applies_to = frozenset({"activation", "output", "prediction", "operator"})
    settings = (Setting("relative_range_lt", "(max - min) / mean(abs) is less", "pos", 1e-6),)
    finds = "All values of an output are nearly the same, whatever the batch holds."
    matters = "The network no longer tells its inputs apart after this layer."
    causes = (
        "Units that are dead or saturated.",
        "Weights that have decayed to zero, so that only the bias is left.",
        "A normalisation over the wrong dimension.",
        "Inputs that are constant.",
    )
    try_ = (
        "Go back in execution order to the first output with this property.",
        "Check the dimension of softmax and norm layers.",
        "Look at the inputs of the step.",
    )
    examples = (
        Example(Stats(count=9, positive=9, min=2.0, max=2.0, mean=2.0, abs_mean=2.0), hit=True),
        Example(Stats(count=9, zero=9, min=0.0, max=0.0, mean=0.0, abs_mean=0.0), hit=True),
        Example(_PLAIN, hit=False),
        Example(Stats(count=1, positive=1, min=2.0, max=2.0, mean=2.0, abs_mean=2.0), hit=False),
        Example(Stats(count=0), hit=False),
    )

    def measure(self, name: str) -> Measure:
        return _relative_range


def _relative_range(stats: Stats) -> float | None:
    if stats.finite < 2 or stats.max is None or stats.min is None or stats.abs_mean is None:
        return None
    return (stats.max - stats.min) / stats.abs_mean if stats.abs_mean else 0.0
