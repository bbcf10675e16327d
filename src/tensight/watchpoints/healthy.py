"""What a healthy training shows although a condition of the recommended set holds.

The recommended set is on in every run, so it must know these cases; watchpoints that a user sets are never second
guessed. `never_watched` is asked once per tensor, `excuse` for each hit: both answer with the reason, or ''.
"""

from __future__ import annotations

from collections.abc import Callable

from tensight.records import Stats, TensorInfo
from tensight.watchpoints.dtypes import is_float
from tensight.watchpoints.surroundings import Surroundings, is_mask

_GRADIENTS = ("gradient", "output_gradient", "input_gradient", "operator_gradient")
_STARTS_AT_ZERO = (
    "bias",
    "beta",
    "shift",
    "offset",
    "lora_b",
    "lora_embedding_b",
    "gate",
    "layer_scale",
    "token",
    "pos_embed",
)
FEW = 32
"""Below so many values, all of them zero or saturated says nothing."""


def starts_at_zero(info: TensorInfo) -> bool:
    """Whether a parameter is of a sort that is rightly initialised to zero: a bias, a norm's scale or shift, a gate.

    >>> starts_at_zero(TensorInfo(id=0, kind="weight", node="fc", slot="bias", shape=(8,)))
    True
    >>> starts_at_zero(TensorInfo(id=0, kind="weight", node="fc", slot="weight", shape=(8, 4)))
    False
    """
    slot, node = info.slot.lower(), info.node.lower()
    if len(info.shape) == 1 or (info.shape and slot != "weight" and sum(length > 1 for length in info.shape) <= 1):
        return True
    return any(word in slot for word in _STARTS_AT_ZERO) or ".lora_b" in f".{node}"


def never_watched(code: str, info: TensorInfo) -> str:
    """Why a condition of the recommended set says nothing about this tensor, whatever it holds."""
    if code == "TZ":
        return _zeros_are_usual(info)
    if code == "WI" and starts_at_zero(info):
        return "biases, norms and gates may start at zero"
    if code == "WCL" and starts_at_zero(info):
        return "a parameter near zero changes by a large part of itself"
    if code in ("TO", "OO") and not is_float(info.dtype):
        return "integers are always finite"
    return ""


def _zeros_are_usual(info: TensorInfo) -> str:
    if info.kind in ("buffer", "frozen", "target", "loss", "module_input", "input_gradient"):
        return f"a {info.kind} may be zero"
    if not is_float(info.dtype):
        return "integers are indices, counters or masks"
    if info.kind == "weight" and starts_at_zero(info):
        return "biases, norms and gates may be zero"
    if info.kind in ("operator", "operator_gradient"):
        return "operators make zeros on purpose"
    if "dropout" in info.type.lower():
        return "dropout makes zeros"
    if "mask" in info.slot.lower():
        return "an additive mask of zeros hides nothing"
    where, _, place = info.slot.partition(".")
    if where in ("input", "output") and place[:1].isdigit() and place.partition(".")[0] != "0":
        return "further inputs and outputs, as states of recurrent layers, may be zero"
    return ""


def excuse(code: str, info: TensorInfo, now: Stats, around: Surroundings) -> str:
    """Why this hit of the recommended set is no news."""
    judge = _EXCUSES.get(code)
    return judge(info, now, around) if judge is not None else ""


def _overflow(info: TensorInfo, now: Stats, around: Surroundings) -> str:
    if is_mask(info, now):
        return "-Inf is what a mask is made of"
    if info.kind in _GRADIENTS and around.scaler_skipped:
        return "the loss scaler saw it and left the update out"
    return ""


def _all_zero(info: TensorInfo, now: Stats, around: Surroundings) -> str:
    if now.count < FEW:
        return "too few values to say more than chance"
    if now.bad:
        return "NaN and Inf are said by TO"
    if info.kind in _GRADIENTS and around.updates == 0:
        return "behind a layer that starts at zero, the first gradient is zero"
    return ""


def _saturated(info: TensorInfo, now: Stats, around: Surroundings) -> str:
    return "too few values to say more than chance" if now.count < FEW else ""


def _vanishing(info: TensorInfo, now: Stats, around: Surroundings) -> str:
    if now.abs_mean is None or now.zero == now.finite:
        return "a gradient of zeros is said by TZ"
    typical = now.abs_mean * now.finite / (now.finite - now.zero)
    if typical >= 1e-9:
        return "only few elements have a gradient, and theirs is large enough"
    if starts_at_zero(info) and any(
        (sibling.abs_mean or 0.0) >= 1e3 * typical for sibling in around.sibling_gradients(info)
    ):
        return "the gradient of a bias that what follows takes out again is rounding noise"
    if around.largest_gradient < 1e3 * typical:
        return "all gradients of this step are small alike"
    weight = around.partner(info)
    if weight is not None and weight.abs_mean and typical >= 1e-4 * weight.abs_mean:
        return "the weight is as small"
    return ""


def _not_changed(info: TensorInfo, now: Stats, around: Surroundings) -> str:
    change = now.change
    if change is not None and change.equal < 0.99 * now.count:
        return "it moves, by less than the tolerance"
    gradient = around.partner(info)
    if gradient is None or gradient.zero == gradient.count:
        return "it gets no gradient: an unused or switched-off part"
    return ""


def _starts(info: TensorInfo, now: Stats, around: Surroundings) -> str:
    return "a single number is a gate or a scale" if now.count == 1 else ""


def _changed_much(info: TensorInfo, now: Stats, around: Surroundings) -> str:
    change = now.change
    if change is None:
        return ""
    if change.before_abs_mean == 0:
        return "it started at zero"
    if now.count < FEW:
        return "a weight of few values may pass through zero"
    if change.abs_mean < 0.01:
        return "the weight was tiny, and so is the update"
    return ""


_EXCUSES: dict[str, Callable[[TensorInfo, Stats, Surroundings], str]] = {
    "TO": _overflow,
    "OO": _overflow,
    "TZ": _all_zero,
    "AR": _saturated,
    "GV": _vanishing,
    "WI": _starts,
    "WNC": _not_changed,
    "WCL": _changed_much,
}
