"""Why an operator made NaN or Inf out of finite values, told from what went into it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tensight.diagnosis.words import number
from tensight.records import Replay

Facts = Mapping[str, float | int | str | None]

HALF_MAX = 65504.0
EXP_LIMIT = {"float16": 11.09, "bfloat16": 88.7, "float32": 88.7, "float64": 709.8}

_LOGS = frozenset({"log", "log2", "log10", "log1p", "xlogy", "special_xlog1py"})
_ROOTS = frozenset(
    {"sqrt", "norm", "linalg_vector_norm", "linalg_matrix_norm", "std", "std_mean", "cdist", "_cdist_forward"}
)
_DIVISIONS = frozenset({"div", "true_divide", "divide", "reciprocal", "rsqrt", "remainder", "fmod", "addcdiv"})
_EXPONENTIALS = frozenset({"exp", "expm1", "exp2", "sinh", "cosh", "softplus", "logcumsumexp"})
_ARCS = frozenset({"acos", "asin", "atanh", "acosh", "arccos", "arcsin", "arctanh", "erfinv", "logit"})
_SOFTMAXES = frozenset({"_softmax", "softmax", "_log_softmax", "log_softmax", "_safe_softmax"})


@dataclass(frozen=True)
class Reason:
    """Why, and what to do: `fault` from the vocabulary."""

    fault: str
    category: str
    title: str
    why: str
    fix: tuple[str, ...]
    confidence: float = 0.95


def operator_name(replay: Replay) -> str:
    """The forward operator a user would name, without namespace, overload and in-place mark.

    >>> operator_name(Replay(1, "exact", operator="aten.sqrt_")), operator_name(Replay(1, "exact", operator="aten.log"))
    ('sqrt', 'log')
    """
    node = replay.facts.get("node")
    name = replay.operator.split("::")[-1]
    pieces = name.split(".")
    base = pieces[1] if len(pieces) > 1 and pieces[0] in ("aten", "prims", "ops") else pieces[-1]
    if replay.phase == "backward" and isinstance(node, str) and "Backward" in node:
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", node.partition("Backward")[0]).lower()
        if base.endswith("_backward") or base in ("div", "mul", "masked_fill", "where", "sum", "add", "neg", "pow"):
            base = snake or base
    return base.removesuffix("_backward").removesuffix("_") or base


def _get(facts: Facts, key: str) -> float:
    value = facts.get(key)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _count(facts: Facts, key: str, of: str = "in.0.count") -> str:
    """'3 of 32 values', or the rows when those are what a user counts in."""
    return f"{number(int(_get(facts, key)))} of {number(int(_get(facts, of)))} values"


def _zeros(facts: Facts, index: int = 0) -> str:
    count, total = int(_get(facts, f"in.{index}.zero")), int(_get(facts, f"in.{index}.count"))
    if not total:
        return "its input holds 0"
    verb = "is" if count == 1 else "are"
    return f"{count} of {total} values of its input {verb} exactly 0"


def _log(name: str, facts: Facts, backward: bool) -> Reason | None:
    if _get(facts, "in.0.zero") or (backward and _get(facts, "in.0.min") <= 0):
        made = "its slope 1/x is infinite there" if backward else "log(0) is -inf"
        return Reason(
            "log_of_zero",
            "numeric-nonfinite",
            f"{name} of zero",
            f"{name} was given 0: {made}, and {_zeros(facts)}; a probability that saturates to exactly 0 or 1 does this",
            (
                f"keep the argument away from 0: torch.{name}(x.clamp_min(1e-8))",
                "or use the function that works on logits: log_softmax, logsigmoid, binary_cross_entropy_with_logits",
            ),
        )
    if _get(facts, "in.0.negative"):
        return Reason(
            "log_of_negative",
            "numeric-nonfinite",
            f"{name} of a negative number",
            f"{name} is not defined below 0 and gives NaN; {_count(facts, 'in.0.negative')} of its input are negative,"
            f" the smallest is {number(_get(facts, 'in.0.min'))}",
            ("make the argument positive (softplus, exp, clamp_min) before taking the log",),
        )
    return None


def _root(name: str, facts: Facts, backward: bool) -> Reason | None:
    if backward:
        inner = "torch.sqrt(x + 1e-12)" if name == "sqrt" else f"a small constant inside {name}, or torch.sqrt((x ** 2).sum() + 1e-12)"
        zeros = _zeros(facts) if _get(facts, "in.0.zero") else "the values it was given are all equal or 0"
        return Reason(
            "sqrt_zero_gradient",
            "numeric-nonfinite",
            f"gradient of {name} at zero",
            f"{name} {'is a sqrt and ' if name != 'sqrt' else ''}has an infinite slope at 0; {zeros}. The forward value is"
            f" fine, the backward pass of sqrt divides by 0 and the gradient becomes inf or NaN",
            (f"add a small constant inside the root: {inner}",),
        )
    if _get(facts, "in.0.negative"):
        return Reason(
            "sqrt_of_negative",
            "numeric-nonfinite",
            f"{name} of a negative number",
            f"{name} of a negative number is NaN; {_count(facts, 'in.0.negative')} of its input are negative, the smallest"
            f" is {number(_get(facts, 'in.0.min'))}, as rounding or a difference of large numbers makes",
            ("clamp the argument at 0 from below, with a small constant: torch.sqrt(x.clamp_min(1e-12))",),
        )
    if name.startswith("std") and _get(facts, "bad"):
        return _one_value(name)
    return None


def _one_value(name: str) -> Reason:
    return Reason(
        "division_by_zero",
        "numeric-nonfinite",
        f"{name} of a single value",
        f"{name} divides by the number of values minus one; with one value that is a division by zero",
        (f"take {name} over more than one value, or pass correction=0",),
    )


def _division(name: str, facts: Facts, backward: bool) -> Reason | None:
    index = 0 if name in ("reciprocal", "rsqrt") else 1
    by_number = name not in ("reciprocal", "rsqrt") and facts.get("arg.1") == 0
    zeros = _get(facts, f"in.{index}.zero") or _get(facts, f"in.{index + 1}.zero") * (name == "addcdiv")
    if zeros or by_number:
        index = index if _get(facts, f"in.{index}.zero") or by_number else index + 1
        said = "the divisor is the number 0" if by_number else _zeros(facts, index).replace("its input", "the divisor")
        return Reason(
            "division_by_zero",
            "numeric-nonfinite",
            "division by zero",
            f"{name} divides by zero: {said}" + (" (in the backward pass)" if backward else ""),
            (
                "keep the divisor away from 0: x / (y + 1e-8), or y.clamp_min(1e-8)",
                "or leave the empty case out before dividing",
            ),
        )
    return None


def _exponential(name: str, facts: Facts, backward: bool) -> Reason | None:
    dtype = str(facts.get("in.0.dtype") or facts.get("dtype") or "float32")
    limit = EXP_LIMIT.get(dtype, 88.7)
    largest = _get(facts, "in.0.max")
    if largest > limit * 0.98 or _get(facts, "in.0.min") < -limit * 0.98 or backward:
        return Reason(
            "exp_overflow",
            "numeric-nonfinite",
            f"{name} overflows",
            f"{name} of {number(largest)} does not fit into {dtype}, which ends at {name}({number(limit)}); the result is inf"
            f" (overflow)",
            (
                f"subtract the largest value first, or clamp the argument: {name}(x.clamp(max={limit * 0.9:.0f}))",
                "or use the stable form: logsumexp, log_softmax, softplus",
            ),
        )
    return None


def _softmax(name: str, facts: Facts, backward: bool) -> Reason | None:
    rows = int(_get(facts, "masked_rows"))
    if not rows:
        return None
    return Reason(
        "softmax_all_masked",
        "numeric-nonfinite",
        "softmax over a row that is masked everywhere",
        f"softmax gives NaN where every score of a row is -inf: {rows} {'row is' if rows == 1 else 'rows are'} fully masked,"
        " so there is nothing to normalise (0/0)",
        (
            "leave at least one position open in each row of the mask, or fill with a large negative number (-1e9)"
            " instead of -inf",
            "or set the result of fully masked rows to 0 (torch.nan_to_num) on purpose",
        ),
    )


def _arc(name: str, facts: Facts, backward: bool) -> Reason | None:
    low, high = number(_get(facts, "in.0.min")), number(_get(facts, "in.0.max"))
    what = "has an infinite slope at the ends of its range" if backward else "is not defined outside its range"
    return Reason(
        f"{name}_out_of_range",
        "numeric-nonfinite",
        f"{name} at the edge of its range",
        f"{name} {what}; its input goes from {low} to {high}, where rounding is enough to leave [-1, 1]",
        (f"clamp the argument: torch.{name}(x.clamp(-1 + 1e-6, 1 - 1e-6))",),
    )


def _power(name: str, facts: Facts, backward: bool) -> Reason | None:
    exponent = facts.get("arg.1")
    if isinstance(exponent, (int, float)):
        if backward and exponent < 1 and _get(facts, "in.0.zero"):
            return _root("sqrt" if exponent == 0.5 else "pow", facts, True)
        if exponent < 0 and _get(facts, "in.0.zero"):
            return Reason(
                "division_by_zero",
                "numeric-nonfinite",
                "division by zero",
                f"pow with the negative exponent {number(exponent)} divides by zero: {_zeros(facts)}",
                ("keep the base away from 0: (x + 1e-8) ** exponent",),
            )
        if exponent != int(exponent) and _get(facts, "in.0.negative"):
            return Reason(
                "power_of_negative",
                "numeric-nonfinite",
                "a fractional power of a negative number",
                f"pow with exponent {number(exponent)} is not defined below 0;"
                f" {_count(facts, 'in.0.negative')} of its input are negative",
                ("clamp the base at 0 from below, or take the power of its absolute value",),
            )
    return None


def _empty(name: str, facts: Facts, backward: bool) -> Reason | None:
    count = facts.get("in.0.count")
    if count == 0:
        return Reason(
            "division_by_zero",
            "numeric-nonfinite",
            f"{name} of nothing",
            f"{name} was given an empty tensor: a mean over no values is 0/0, a division by zero",
            ("leave out the empty case: compute this term only when something was selected",),
        )
    if name.startswith(("var", "std")) and count == 1:
        return _one_value(name)
    if name.startswith("nll_loss") and _get(facts, "bad"):
        return Reason(
            "division_by_zero",
            "numeric-nonfinite",
            "loss over no targets",
            f"{name} averages over the targets that are not ignored; here there are none, so it divides by zero",
            ("skip batches in which every target is ignored, or use reduction='sum' and divide by max(count, 1)",),
        )
    return None


_Explain = Callable[[str, Facts, bool], Reason | None]
_BY_GROUP: tuple[tuple[frozenset[str], _Explain], ...] = (
    (_LOGS, _log),
    (_ROOTS, _root),
    (_DIVISIONS, _division),
    (_EXPONENTIALS, _exponential),
    (_SOFTMAXES, _softmax),
    (_ARCS, _arc),
    (frozenset({"pow"}), _power),
)


def _half(name: str, facts: Facts, backward: bool) -> Reason | None:
    dtype = str(facts.get("dtype") or "")
    largest = max(
        [max(abs(_get(facts, f"in.{i}.min")), abs(_get(facts, f"in.{i}.max"))) for i in range(3)], default=0.0
    )
    if dtype != "float16" or _get(facts, "bad_nan") == _get(facts, "bad") > 0:
        return None
    what = "in the backward pass " if backward else ""
    return Reason(
        "fp16_overflow",
        "precision",
        f"{name} overflows float16",
        f"{name} works in half precision (float16), which ends at 65504; {what}its result is larger and becomes inf"
        f" (overflow); the largest value it was given is {number(largest)}",
        (
            "do this operation in float32 (leave out .half(), or .float() before it), or in bfloat16",
            "or scale the values down before, or use autocast with a gradient scaler",
        ),
    )


def _too_large(name: str, facts: Facts, backward: bool) -> Reason | None:
    largest = max(
        (max(abs(_get(facts, f"in.{i}.min")), abs(_get(facts, f"in.{i}.max"))) for i in range(3)), default=0.0
    )
    if largest < 1e12:
        return None
    return Reason(
        "exploding_gradient" if backward else "exploding_activation",
        "gradient-flow",
        f"{'gradients' if backward else 'activations'} grow until {name} overflows",
        f"{name} was given values up to {number(largest)}; the result no longer fits into"
        f" {facts.get('dtype') or 'its number format'}: {'gradients' if backward else 'activations'} explode",
        ("lower the learning rate, clip gradients (clip_grad_norm_), or normalise (LayerNorm, BatchNorm)",),
        0.7,
    )


def reason(replay: Replay) -> Reason | None:
    """Why the first bad operator of a replayed step went bad; None when its inputs do not tell."""
    facts = replay.facts
    name = operator_name(replay)
    backward = replay.phase == "backward"
    if facts.get("masked_rows"):
        found = _softmax(name, facts, backward)
        if found is not None:
            return found
    for names, explain in _BY_GROUP:
        if name in names:
            found = explain(name, facts, backward)
            if found is not None:
                return found
    for explain in (_empty, _half, _too_large):
        found = explain(name, facts, backward)
        if found is not None:
            return found
    return None
