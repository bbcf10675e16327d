"""Values that are too large or too small: in any tensor, weights and gradients."""

from __future__ import annotations

from operator import attrgetter

from tensight.records import Stats
from tensight.watchpoints.condition import Example, Setting
from tensight.watchpoints.thresholds import Measure, Thresholds

_SMALL = Stats(count=4, negative=2, positive=2, min=-1e-12, max=1e-12, mean=0.0, abs_mean=1e-12)
_PLAIN = Stats(count=4, negative=2, positive=2, min=-2.0, max=2.0, mean=0.0, abs_mean=1.0)
_LARGE = Stats(count=4, nan=1, negative=1, positive=2, min=-2.0, max=500.0, mean=200.0, abs_mean=201.0)


class _Magnitude(Thresholds):
    def measure(self, name: str) -> Measure:
        return attrgetter(name.rpartition("_")[0])


class _TooLarge(_Magnitude):
    settings = (
        Setting("abs_mean_gt", "mean of the absolute values is greater", "abs"),
        Setting("max_gt", "maximum is greater"),
        Setting("min_gt", "minimum is greater"),
        Setting("mean_gt", "mean is greater"),
    )
    one_of = ("abs_mean_gt", "max_gt", "min_gt", "mean_gt")
    examples = (
        Example(_LARGE, hit=True, settings={"max_gt": 100}),
        Example(_LARGE, hit=True, settings={"abs_mean_gt": 100, "min_gt": 0}),
        Example(_PLAIN, hit=False, settings={"max_gt": 2}),
        Example(_PLAIN, hit=False, settings={"abs_mean_gt": 1, "mean_gt": 0, "min_gt": -2}),
        Example(Stats(count=0), hit=False, settings={"max_gt": -1}),
    )


class _TooSmall(_Magnitude):
    settings = (
        Setting("abs_mean_lt", "mean of the absolute values is less", "abs"),
        Setting("max_lt", "maximum is less"),
        Setting("min_lt", "minimum is less"),
        Setting("mean_lt", "mean is less"),
    )
    one_of = ("abs_mean_lt", "max_lt", "min_lt", "mean_lt")
    examples = (
        Example(_SMALL, hit=True, settings={"abs_mean_lt": 1e-9}),
        Example(_PLAIN, hit=True, settings={"min_lt": -1, "max_lt": 1}),
        Example(_PLAIN, hit=False, settings={"abs_mean_lt": 1, "mean_lt": 0, "max_lt": 2, "min_lt": -2}),
        Example(Stats(count=0), hit=False, settings={"max_lt": 1}),
    )


class TensorTooLarge(_TooLarge):
    """TL: a tensor is above a threshold."""

    code = "TL"
    name = "tensor_too_large"
    title = "Tensor too large"
    finds = "A tensor's maximum, minimum, mean or mean of absolute values is above what you set."
    matters = "Values that grow from layer to layer or from step to step end in overflow or in saturated units."
    causes = (
        "Inputs that are not normalised.",
        "Initial weights that are too large for the width of the layer.",
        "A missing normalisation layer, or a residual sum that grows with depth.",
        "A learning rate that is too high.",
    )
    try_ = (
        "Look at the tensors before this one in execution order: the first large one shows where it begins.",
        "Normalise the inputs; use the initialisation made for the activation.",
        "Add normalisation or scale the residual branch.",
    )


class TensorTooSmall(_TooSmall):
    """TS: a tensor is below a threshold."""

    code = "TS"
    name = "tensor_too_small"
    title = "Tensor too small"
    finds = "A tensor's maximum, minimum, mean or mean of absolute values is below what you set."
    matters = "A signal that fades carries no information on, and its gradient fades with it."
    causes = (
        "Initial weights that are too small.",
        "Units that are saturated or switched off in the layers before.",
        "Inputs that were scaled twice.",
        "Weight decay that is stronger than the learning signal.",
    )
    try_ = (
        "Compare with the layers before: where the values shrink, the cause is near.",
        "Check the scaling of the data and the initialisation.",
        "Lower the weight decay.",
    )


class WeightTooLarge(_TooLarge):
    """WL: a weight is above a threshold."""

    code = "WL"
    name = "weight_too_large"
    title = "Weight too large"
    on = "weight:*"
    applies_to = frozenset({"weight", "frozen", "buffer"})
    finds = "A weight's maximum, minimum, mean or mean of absolute values is above what you set."
    matters = "Large weights make large activations and gradients, and a network that overreacts to its input."
    causes = (
        "A learning rate that is too high.",
        "Large gradients without clipping.",
        "No weight decay on a weight that can grow freely.",
        "An initialisation that was already too large: compare with step 0.",
    )
    try_ = (
        "Look at the history of this weight: a jump points to one bad update, steady growth to the learning rate.",
        "Lower the learning rate, clip gradients, add weight decay.",
    )


class WeightTooSmall(_TooSmall):
    """WS: a weight is below a threshold."""

    code = "WS"
    name = "weight_too_small"
    title = "Weight too small"
    on = "weight:*"
    applies_to = frozenset({"weight", "frozen", "buffer"})
    finds = "A weight's maximum, minimum, mean or mean of absolute values is below what you set."
    matters = "A layer whose weights have faded passes nothing on."
    causes = (
        "Weight decay that is too strong for the learning rate.",
        "An initialisation that was already too small: compare with step 0.",
        "A penalty that drives weights to zero, which may be wanted.",
    )
    try_ = (
        "Look at the history of this weight: a steady decay at the same rate everywhere is weight decay.",
        "Lower the weight decay, or leave this weight out of it.",
    )


class GradientTooLarge(_TooLarge):
    """GL: a gradient is above a threshold."""

    code = "GL"
    name = "gradient_too_large"
    title = "Gradient too large"
    on = "gradient:*"
    applies_to = frozenset({"gradient", "output_gradient", "input_gradient", "operator_gradient"})
    finds = "A gradient's maximum, minimum, mean or mean of absolute values is above what you set."
    matters = "One update with a gradient like this can undo what was learnt before."
    causes = (
        "A batch with an outlier or a wrong label.",
        "A learning rate that is too high: the weights are already in a steep region.",
        "A loss that is summed over the batch instead of averaged.",
        "Gradients that were not cleared, or not unscaled, before the step.",
    )
    try_ = (
        "See whether all layers are large (loss, learning rate) or one (its input, its operator).",
        "Clip gradients by norm.",
        "Check reduction of the loss, zero_grad and the order of unscale and clip.",
    )


class GradientVanishing(_TooSmall):
    """GV: a gradient is below a threshold."""

    code = "GV"
    name = "gradient_vanishing"
    title = "Gradient vanishing"
    on = "gradient:*"
    applies_to = frozenset({"gradient", "output_gradient", "input_gradient", "operator_gradient"})
    finds = "A gradient's maximum, minimum, mean or mean of absolute values is below what you set."
    matters = "A layer without gradient does not learn, however long the training runs."
    causes = (
        "Saturated sigmoid, tanh or softmax units between this layer and the loss.",
        "Units that are dead: relu whose input is always negative.",
        "Many layers without normalisation or residual connections.",
        "Underflow in float16 without loss scaling.",
        "A part of the network that the loss does not depend on.",
    )
    try_ = (
        "Follow the gradients from the loss towards this layer: where they drop is the cause.",
        "Use relu-like activations, normalisation, residual connections, a matching initialisation.",
        "In float16 use a loss scale, or bfloat16.",
    )
