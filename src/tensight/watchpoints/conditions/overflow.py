"""NaN and Inf: in any tensor, weight, gradient or loss, and the operator that made them."""

from __future__ import annotations

from collections.abc import Callable

from tensight.records import Stats, TensorInfo
from tensight.watchpoints.condition import QUIET, Condition, Example, History, Verdict
from tensight.watchpoints.dtypes import bounds
from tensight.watchpoints.thresholds import bad_values

_EXAMPLES = (
    Example(Stats(count=100, nan=3, zero=97, min=0.0, max=0.0, mean=0.0, abs_mean=0.0), hit=True),
    Example(Stats(count=4, pos_inf=1, positive=3, min=1.0, max=2.0, mean=1.5, abs_mean=1.5), hit=True),
    Example(Stats(count=4, neg_inf=1, positive=3, min=1.0, max=2.0, mean=1.5, abs_mean=1.5), hit=True),
    Example(Stats(count=4, positive=4, min=1.0, max=3e38, mean=1e38, abs_mean=1e38), hit=False),
    Example(Stats(count=0), hit=False),
)


class _Overflow(Condition):
    """Any NaN or Inf."""

    examples = _EXAMPLES

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        if not now.count:
            return Verdict(error="no_value", note="the tensor is empty")
        if not now.bad:
            return QUIET
        return Verdict({name: (count, None) for name, count in (("nan", now.nan), ("inf", now.inf)) if count})

    def gate(self, info: TensorInfo) -> Callable[[Stats], object]:
        return bad_values


class TensorOverflow(_Overflow):
    """TO: any NaN or Inf in a tensor."""

    code = "TO"
    name = "tensor_overflow"
    title = "Tensor overflow"
    finds = "A tensor holds at least one NaN or Inf."
    matters = "NaN and Inf spread to everything computed from them; one update with them spoils the weights for good."
    causes = (
        "A learning rate that is too high drove values out of the range of their dtype.",
        "An operator at the edge of its domain: log(0), sqrt(0) in the backward pass, 0/0, exp of a large number.",
        "NaN or Inf in the input data.",
        "float16 beyond 65504, mostly in attention scores, exp and sums.",
    )
    try_ = (
        "Look at the first tensor in execution order that is hit: the later ones are its consequences.",
        "Keep arguments inside the domain: log(x + 1e-12), a clamp before exp, a small constant inside roots.",
        "Lower the learning rate, add a warm-up, clip gradients.",
        "Check the data for NaN before it reaches the network.",
    )


class OperatorOverflow(Condition):
    """OO: an operator that makes NaN, Inf or a value beyond its dtype's range out of finite values."""

    code = "OO"
    name = "operator_overflow"
    title = "Operator overflow"
    on = "*"
    applies_to = frozenset(
        {
            "operator",
            "operator_gradient",
            "output",
            "activation",
            "output_gradient",
            "input_gradient",
            "prediction",
            "loss",
        }
    )
    wants_origin = True
    finds = "An operator gives NaN, Inf or a value beyond its dtype's range although what it was given was finite."
    matters = "This is where the trouble starts; every other tensor with NaN or Inf in the step has it from here."
    causes = (
        "A division, logarithm, root or power at the edge of its domain.",
        "exp or a product that leaves the range of the dtype, soonest in float16 and 8-bit floats.",
        "A row of a softmax where everything is masked.",
        "A large sum or matrix product in low precision.",
    )
    try_ = (
        "Look at the operator's inputs: their minimum and maximum usually show which value is at fault.",
        "Add a small constant or a clamp in front of the operator.",
        "Run this operator in float32, e.g. by leaving it out of mixed precision.",
    )
    examples = (
        *_EXAMPLES[:-2],
        Example(Stats(count=4, positive=4, min=1.0, max=3e38, mean=1e38, abs_mean=1e38), hit=False),
        Example(
            Stats(count=2, positive=2, min=1.0, max=70000.0, mean=35000.5, abs_mean=35000.5),
            hit=True,
            info=TensorInfo(id=0, kind="operator", node="head", slot="output.0", dtype="float16", op="mul"),
        ),
        Example(
            Stats(count=2, positive=2, min=1.0, max=65504.0, mean=32752.5, abs_mean=32752.5),
            hit=False,
            info=TensorInfo(id=0, kind="operator", node="head", slot="output.0", dtype="float16", op="mul"),
        ),
    )

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        if not now.count:
            return Verdict(error="no_value", note="the tensor is empty")
        held: dict[str, tuple[float, float | None]] = {}
        for name, count in (("nan", now.nan), ("inf", now.inf)):
            if count:
                held[name] = (count, None)
        limits = bounds(info.dtype)
        if limits is not None and now.max is not None and now.min is not None:
            if now.max > limits[1]:
                held["max"] = (now.max, limits[1])
            if now.min < limits[0]:
                held["min"] = (now.min, limits[0])
        return Verdict(held) if held else QUIET

    def gate(self, info: TensorInfo) -> Callable[[Stats], object]:
        limits = bounds(info.dtype)
        if limits is None:
            return bad_values
        least, most = limits

        def beyond(stats: Stats) -> object:
            if stats.nan or stats.pos_inf or stats.neg_inf or not stats.count:
                return True
            return stats.max > most or stats.min < least  # type: ignore[operator]

        return beyond


class WeightOverflow(_Overflow):
    """WO: any NaN or Inf in a weight."""

    code = "WO"
    name = "weight_overflow"
    title = "Weight overflow"
    on = "weight:*"
    applies_to = frozenset({"weight", "frozen", "buffer"})
    finds = "A weight holds at least one NaN or Inf."
    matters = "A weight that is NaN stays NaN: the training cannot recover without an earlier checkpoint."
    causes = (
        "An update with a NaN or Inf gradient.",
        "A learning rate so high that weights grew out of their range.",
        "An optimizer that divides by a second moment near zero (eps too small for the dtype).",
        "A checkpoint that was already damaged.",
    )
    try_ = (
        "Look at the gradient of this weight in the same step, then at the first NaN of the step.",
        "Go back to the last checkpoint before this step; run with --guard to stop before such an update.",
        "Lower the learning rate or clip gradients; raise the optimizer's eps in low precision.",
    )


class GradientExploding(_Overflow):
    """GE: any NaN or Inf in a gradient."""

    code = "GE"
    name = "gradient_exploding"
    title = "Gradient exploding"
    on = "gradient:*"
    applies_to = frozenset({"gradient", "output_gradient", "input_gradient", "operator_gradient"})
    finds = "A gradient holds at least one NaN or Inf."
    matters = "The next optimizer step writes it into the weights."
    causes = (
        "NaN or Inf in the forward pass or the loss of the same step.",
        "An operator with an infinite slope: sqrt or norm at 0, pow with an exponent below 1, acos at 1.",
        "A loss scale that is too high: normal for the first steps of dynamic scaling, not later.",
        "Recurrent or very deep networks without clipping.",
    )
    try_ = (
        "See whether the loss of the step was finite: if so, the fault is in the backward pass.",
        "Add a small constant inside roots and norms.",
        "Clip gradients after unscaling them.",
        "Lower the loss scale, or let it adapt.",
    )


class LossOverflow(_Overflow):
    """LO: the loss is NaN or Inf."""

    code = "LO"
    name = "loss_overflow"
    title = "Loss overflow"
    on = "loss:*"
    applies_to = frozenset({"loss"})
    finds = "The loss is NaN or Inf."
    matters = "Every gradient of the step is NaN with it."
    causes = (
        "A prediction that is NaN or Inf already.",
        "log of a probability that is exactly 0.",
        "A mean over nothing: every target was ignored or masked.",
        "Labels outside the range of classes.",
    )
    try_ = (
        "Look at the prediction and target of the step.",
        "Use the loss on logits instead of log of probabilities.",
        "Leave batches out in which every target is ignored.",
    )
