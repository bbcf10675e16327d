"""Why an operator made NaN or Inf out of finite values: told from what went into it, in terms of the user's line.

One function explains one family of operators; `_FAMILIES` says which. A function answers None when the numbers do not
bear its reason out: then a more general one is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tensight.diagnosis.reasons_half import lost_constant
from tensight.diagnosis.reasons_line import mended
from tensight.diagnosis.reasons_words import spoken
from tensight.diagnosis.words import bad_kind
from tensight.records import Replay

NUMERIC = "numeric-nonfinite"
LARGEST = {"float16": 65504.0, "bfloat16": 3.39e38, "float32": 3.4e38, "float64": 1.8e308}
EXP_LIMIT = {"float16": 11.09, "bfloat16": 88.7, "float32": 88.7, "float64": 709.8}


@dataclass(frozen=True)
class Reason:
    """Why, and what to do; `fault` and `category` are words of the vocabulary."""

    fault: str
    category: str
    title: str
    why: str
    fix: tuple[str, ...]
    confidence: float = 0.95


def operator_name(replay: Replay) -> str:
    """The operator as a user would name it: without namespace, overload and in-place mark.

    A backward operator whose forward operator was not seen is named by its node.

    >>> operator_name(Replay(1, "exact", operator="aten._softmax"))
    'softmax'
    >>> operator_name(Replay(1, "exact", operator="aten.div", phase="backward", facts={"node": "SqrtBackward0"}))
    'sqrt'
    """
    name = replay.operator.split("::")[-1].split(".")
    base = name[1] if len(name) > 1 else name[0]
    node = replay.facts.get("node")
    unlinked = base == str(replay.facts.get("backward_operator") or base).split(".")[-1]
    if replay.phase == "backward" and isinstance(node, str) and "Backward" in node and unlinked:
        base = re.sub(r"(?<!^)(?=[A-Z])", "_", node.split("::")[-1].partition("Backward")[0]).lower() or base
    return base.removesuffix("_backward").strip("_").removesuffix("_forward") or base


class Given:
    """The facts of a replay, asked for by name."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.facts = replay.facts
        self.name = operator_name(replay)
        self.backward = replay.phase == "backward"

    def number(self, key: str) -> float:
        value = self.facts.get(key)
        return float(value) if isinstance(value, (int, float)) else 0.0

    def has(self, key: str) -> bool:
        return isinstance(self.facts.get(key), (int, float))

    def zeros(self, index: int = 0, what: str = "its input") -> str:
        """'3 of 32 values of its input are exactly 0'."""
        return self.count(index, "zero", what, "exactly 0")

    def count(self, index: int, key: str, what: str, be: str) -> str:
        found, total = int(self.number(f"in.{index}.{key}")), int(self.number(f"in.{index}.count"))
        if total == 1:
            return f"{what} is {be}"
        return f"{found} of {total} values of {what} {'is' if found == 1 else 'are'} {be}"

    def span(self, index: int = 0) -> str:
        low, high = self.number(f"in.{index}.min"), self.number(f"in.{index}.max")
        return f"from {low:.4g} to {high:.4g}"

    def largest(self) -> float:
        """The largest absolute value among the inputs."""
        keys = [key for key in self.facts if re.fullmatch(r"in\.\d+\.(min|max)", key)]
        return max((abs(self.number(key)) for key in keys), default=0.0)

    @property
    def dtype(self) -> str:
        return str(self.facts.get("dtype") or self.facts.get("in.0.dtype") or "float32")

    @property
    def dropped(self) -> bool:
        """Whether the bad gradients stand where none was to flow: a branch that `where` or a mask threw away."""
        return self.backward and 0 < self.number("bad") == self.number("incoming_zero_at_bad")

    def fix(self, names: str, change: str, otherwise: str, *more: str) -> tuple[str, ...]:
        """The user's line mended, or a sentence where it cannot be seen."""
        source = self.replay.source
        line = mended(source.code, names.split(), change) if source is not None and source.code else ""
        return (f"{otherwise}: {line}" if line else otherwise, *more)


def _infinity(given: Given) -> str:
    """Where values overflowed to."""
    return bad_kind(0, given.number("bad") - given.number("bad_nan"), given.number("bad_neg_inf"))


def _log(given: Given) -> Reason | None:
    name = given.name
    if name == "log1p":
        if given.number("in.0.min") <= -1:
            return Reason(
                "log_of_zero" if given.number("in.0.min") == -1 else "log_of_negative",
                NUMERIC,
                "log1p at or below -1",
                "log1p(x) is log(1 + x): at x = -1 it is the log of zero (-inf), below it is NaN;"
                f" x goes {given.span()}",
                given.fix("log1p", "x.clamp_min(-1 + 1e-6)", "keep the argument above -1"),
            )
        return None
    index = 1 if name in ("xlogy", "special_xlog1py") else 0
    if given.number(f"in.{index}.zero"):
        slope = (
            "its slope 1/x is infinite at 0, so its gradient is not finite" if given.backward else f"{name}(0) is -inf"
        )
        tail = ""
        if given.dropped:
            tail = "; the values are masked out afterwards, but 0 times inf is NaN in the backward pass"
        return Reason(
            "log_of_zero",
            NUMERIC,
            f"{name} of zero",
            f"{name} was given 0: {slope}; {given.zeros(index)}{tail}."
            " Probabilities that saturate to exactly 0 or 1 do this",
            given.fix(
                "log log2 log10 xlogy",
                "x.clamp_min(1e-8)",
                "keep the argument away from 0",
                "or use the function that takes logits: log_softmax, logsigmoid, binary_cross_entropy_with_logits",
            ),
        )
    if given.number(f"in.{index}.negative"):
        return Reason(
            "log_of_negative",
            NUMERIC,
            f"{name} of a negative number",
            f"{name} is not defined below 0 and gives NaN; {given.count(index, 'negative', 'its input', 'negative')},"
            f" the smallest is {given.number(f'in.{index}.min'):.4g}",
            given.fix("log log2 log10", "x.clamp_min(1e-8)", "make the argument positive before the log"),
        )
    return None


def _sqrt(given: Given) -> Reason | None:
    if given.number("in.0.negative") and not given.backward:
        return Reason(
            "sqrt_of_negative",
            NUMERIC,
            "sqrt of a negative number",
            f"sqrt of a negative number is NaN; {given.count(0, 'negative', 'its input', 'negative')}, the smallest is"
            f" {given.number('in.0.min'):.4g}: rounding or a difference of large numbers does this",
            given.fix("sqrt", "x.clamp_min(1e-12)", "clamp the argument before the root"),
        )
    if given.backward and (given.number("in.0.zero") or not given.has("in.0.zero")):
        zeros = given.zeros() if given.has("in.0.zero") else "its input holds 0"
        return Reason(
            "sqrt_zero_gradient",
            NUMERIC,
            "gradient of sqrt at zero",
            f"sqrt has an infinite slope at 0; {zeros}. The forward value is fine, but the backward pass divides by 0,"
            " and the gradient becomes infinite, or NaN where it meets a 0",
            given.fix("sqrt", "x + 1e-12", "add a small constant inside the root"),
        )
    return None


def _rsqrt(given: Given) -> Reason | None:
    if given.number("in.0.zero"):
        return Reason(
            "division_by_zero",
            NUMERIC,
            "rsqrt of zero",
            f"rsqrt is 1 / sqrt, so at 0 it is a division by zero; {given.zeros()}",
            given.fix("rsqrt", "x + 1e-12", "add a small constant inside"),
        )
    if given.number("in.0.negative"):
        return Reason(
            "sqrt_of_negative",
            NUMERIC,
            "rsqrt of a negative number",
            f"the root of a negative number is NaN; {given.count(0, 'negative', 'its input', 'negative')}",
            given.fix("rsqrt", "x.clamp_min(1e-12)", "clamp the argument before the root"),
        )
    return None


def _norm(given: Given) -> Reason | None:
    if not given.backward:
        return None
    return Reason(
        "sqrt_zero_gradient",
        NUMERIC,
        f"gradient of {given.name} at zero",
        f"{given.name} takes a sqrt, which has an infinite slope at 0: where a whole vector is 0 (or two points are the"
        f" same), the backward pass divides by zero and gives NaN; {given.zeros()}",
        (
            "write the distance out with a constant inside the root: torch.sqrt((x ** 2).sum(-1) + 1e-12)",
            f"or add a small constant to what {given.name} is given",
        ),
    )


def _division(given: Given) -> Reason | None:
    divisor = 0 if given.name == "reciprocal" else 2 if given.name in ("addcdiv", "foreach_addcdiv") else 1
    by_number = given.name != "reciprocal" and given.facts.get("arg.1") == 0
    if not (given.number(f"in.{divisor}.zero") or by_number):
        return None
    said = "the divisor is the number 0" if by_number else given.zeros(divisor, "the divisor")
    if given.replay.phase == "update" and given.dtype == "float16":
        return Reason(
            "eps_underflows_in_half",
            "precision",
            "the eps of the optimizer is zero in float16",
            f"in the update {given.name} divides by zero: the weights and the optimizer's state are float16, where an"
            f" eps of"
            f" 1e-8 underflows to 0, and so does the square of a small gradient; {said}",
            (
                "keep weights and optimizer in float32 and compute under torch.autocast, or give eps=1e-4",
                "or use bfloat16, which holds such small numbers",
            ),
        )
    if given.replay.phase == "update":
        return Reason(
            "division_by_zero",
            NUMERIC,
            "the optimizer divides by zero",
            f"in the update {given.name} divides by zero: {said}; with eps = 0 a gradient that was always 0 does this",
            ("give the optimizer an eps above 0, e.g. eps=1e-8",),
        )
    tail = ""
    if given.dropped:
        tail = " in its backward pass; a mask or torch.where drops the value, but its gradient is still 0 * inf = NaN"
    elif given.backward:
        tail = " in its backward pass"
    return Reason(
        "division_by_zero",
        NUMERIC,
        "division by zero",
        f"{given.name} divides by zero{tail}: {said}",
        given.fix("/ div true_divide reciprocal", "x.clamp_min(1e-8)", "keep the divisor away from 0")
        if given.number(f"in.{divisor}.negative") == 0
        else given.fix("/", "x + 1e-8", "keep the divisor away from 0"),
    )


def _mean_of_nothing(given: Given) -> Reason | None:
    if given.facts.get("in.0.count") == 0:
        return Reason(
            "division_by_zero",
            NUMERIC,
            f"{given.name} of nothing",
            f"{given.name} was given an empty tensor: an average over no values is 0 / 0, a division by zero",
            ("compute this term only when something was selected, e.g. if mask.any():",),
        )
    return None


def _spread(given: Given) -> Reason | None:
    if given.backward:
        return Reason(
            "sqrt_zero_gradient",
            NUMERIC,
            f"gradient of {given.name} of equal values",
            f"{given.name} takes a sqrt of the variance; where all values are equal the variance is 0, and sqrt has an"
            " infinite slope at 0, so the backward pass gives NaN",
            ("use the variance and add a constant: torch.sqrt(x.var() + 1e-12)",),
        )
    return _mean_of_nothing(given) or Reason(
        "division_by_zero",
        NUMERIC,
        f"{given.name} of a single value",
        f"{given.name} divides by the number of values minus one, which is a division by zero for one value"
        f" (its input is {given.facts.get('in.0.shape') or '1'!s})",
        (f"take {given.name} over more than one value, or pass correction=0",),
    )


def _exp(given: Given) -> Reason | None:
    limit, largest = EXP_LIMIT.get(given.dtype, 88.7), given.largest()
    added_in = given.facts.get("added_in")
    if isinstance(added_in, str):
        return Reason(
            "exp_overflow",
            NUMERIC,
            f"{given.name} overflows in {added_in}",
            f"{given.name} of {largest:.4g} just fits into {given.dtype}, where {given.name} ends at about {limit:.4g};"
            f" {added_in} adds such numbers up, and the result is {_infinity(given)} (overflow)",
            given.fix(
                given.name,
                f"x.clamp(max={0.8 * limit:.0f})",
                "limit the argument",
                "or use a form that cannot overflow: logsumexp, log_softmax, cross_entropy on the scores",
            ),
        )
    if largest < 0.95 * limit and not given.backward:
        return None
    return Reason(
        "exp_overflow",
        NUMERIC,
        f"{given.name} overflows",
        f"{given.name} of {largest:.4g} does not fit into {given.dtype}, where {given.name} ends at about {limit:.4g};"
        f" the result is {_infinity(given)} (overflow)",
        given.fix(
            given.name,
            f"x.clamp(max={0.9 * limit:.0f})",
            "limit the argument",
            "or use a form that cannot overflow: logsumexp, log_softmax, softplus",
        ),
    )


def _softmax(given: Given) -> Reason | None:
    rows = int(given.number("masked_rows"))
    if rows:
        return Reason(
            "softmax_all_masked",
            NUMERIC,
            "softmax over a row in which everything is masked",
            f"softmax has nothing to normalise where every score of a row is -inf: 0 / 0 gives NaN;"
            f" {rows} row{'' if rows == 1 else 's'} of scores {'is' if rows == 1 else 'are'} fully masked",
            (
                "leave at least one position of each row open, or mask with a large finite number instead of -inf:"
                " scores.masked_fill(mask, -1e9)",
                "or set the result of fully masked rows to 0: torch.nan_to_num(weights)",
            ),
        )
    if given.number("in.0.pos_inf"):
        return Reason(
            "softmax_of_inf",
            NUMERIC,
            f"{given.name} of infinite scores",
            f"{given.name} subtracts the largest score, and inf - inf is NaN;"
            f" {given.count(0, 'pos_inf', 'its input', 'inf')}",
            ("find what makes the scores infinite: scale them, or compute them in float32",),
        )
    return None


def _arc(given: Given) -> Reason | None:
    if given.name in ("acosh",):
        where, range_words, clamp = "below 1", "[1, inf)", "x.clamp_min(1 + 1e-6)"
    elif given.name == "logit":
        where, range_words, clamp = "at 0 and 1", "(0, 1)", "x.clamp(1e-6, 1 - 1e-6)"
    else:
        where, range_words, clamp = "outside [-1, 1]", "[-1, 1]", "x.clamp(-1 + 1e-6, 1 - 1e-6)"
    what = "has an infinite slope at the ends of its range" if given.backward else f"is not finite {where}"
    return Reason(
        f"{given.name}_out_of_range",
        NUMERIC,
        f"{given.name} {'at the edge of' if given.backward else 'outside'} its range",
        f"{given.name} {what} {range_words}; its input goes {given.span()}, and rounding is enough to get there",
        given.fix(given.name, clamp, "keep the argument inside"),
    )


def _atan2(given: Given) -> Reason | None:
    if not given.backward:
        return None
    return Reason(
        "atan2_zero_gradient",
        NUMERIC,
        "gradient of atan2 at the origin",
        "the slope of atan2(y, x) is y / (x² + y²): where both are 0 it divides by zero and gives NaN; "
        + given.zeros(0, "y"),
        ("keep (x, y) away from the origin, e.g. torch.atan2(y, x + 1e-8), or leave such points out of the loss",),
    )


def _pow(given: Given) -> Reason | None:
    exponent = given.facts.get("arg.1")
    if not isinstance(exponent, (int, float)):
        exponent = given.facts.get("in.1.min")
    if not isinstance(exponent, (int, float)):
        return None
    if given.backward and exponent < 1 and given.number("in.0.zero"):
        root = exponent == 0.5
        return Reason(
            "sqrt_zero_gradient",
            NUMERIC,
            f"gradient of {'sqrt (a power of 0.5)' if root else f'a power of {exponent:g}'} at zero",
            f"x ** {exponent:g} {'is a sqrt and ' if root else ''}has an infinite slope at 0; {given.zeros()}."
            " The backward pass gives an infinite gradient, or NaN where it meets a 0",
            given.fix("** pow", "x + 1e-12", "add a small constant to the base"),
        )
    if exponent < 0 and given.number("in.0.zero"):
        return Reason(
            "division_by_zero",
            NUMERIC,
            f"zero to the power of {exponent:g}",
            f"a negative power of 0 is a division by zero; {given.zeros()}",
            given.fix("** pow", "x + 1e-8", "keep the base away from 0"),
        )
    if exponent != int(exponent) and given.number("in.0.negative"):
        return Reason(
            "power_of_negative",
            NUMERIC,
            "a fractional power of a negative number",
            f"x ** {exponent:g} is NaN below 0; {given.count(0, 'negative', 'the base', 'negative')}",
            given.fix("** pow", "x.clamp_min(0)", "keep the base from being negative"),
        )
    return None


def _product(given: Given) -> Reason | None:
    """inf * 0 and inf - inf: an infinity that was tolerated so far meets its match."""
    infinite = [i for i in range(3) if given.number(f"in.{i}.pos_inf") or given.number(f"in.{i}.neg_inf")]
    if not infinite or not given.number("bad_nan"):
        return None
    index = infinite[0]
    count = int(given.number(f"in.{index}.pos_inf") + given.number(f"in.{index}.neg_inf"))
    meets = "inf - inf" if given.name in ("add", "sub", "sum", "mean", "cumsum", "logaddexp") else "0 * inf"
    return Reason(
        "inf_times_zero" if meets == "0 * inf" else "inf_minus_inf",
        NUMERIC,
        f"{meets} in {given.name}",
        f"{given.name} was given {count} infinite value{'' if count == 1 else 's'}, and {meets} is NaN",
        (
            "select instead of multiplying: torch.where(mask, value, 0.) does not compute with what it drops"
            if meets == "0 * inf"
            else "mask with a large finite number (-1e9) instead of -inf",
        ),
        0.9,
    )


def _loss(given: Given) -> Reason | None:
    if given.name.startswith("nll_loss") and given.number("bad"):
        if given.number("in.0.neg_inf") or given.number("in.0.nan"):
            return None
        return Reason(
            "division_by_zero",
            NUMERIC,
            "loss over no targets",
            f"{given.name} averages over the targets that are not ignored; here none is left: a division by zero",
            ("skip batches in which every target is ignored, or use reduction='sum' and divide by max(count, 1)",),
        )
    return None


def _overflow(given: Given) -> Reason | None:
    """The result is larger than its number format holds."""
    if given.number("bad") and given.number("bad_nan") == given.number("bad") and not given.backward:
        return None
    largest = given.largest()
    what = "gradients" if given.backward else "values"
    if given.dtype == "float16":
        return Reason(
            "fp16_overflow",
            "precision",
            f"{given.name} overflows float16",
            f"{given.name} runs in half precision (float16), which ends at 65504; {what} larger than that become"
            f" {_infinity(given)} (overflow). The largest value it was given is {largest:.4g}",
            (
                "do this operation in float32: leave out .half(), or put .float() before it; bfloat16 has the range",
                "or scale the values down first; under autocast use a GradScaler",
            ),
        )
    if largest < LARGEST.get(given.dtype, 3.4e38) ** 0.5 / 1e4:
        return None
    return Reason(
        "exploding_gradient" if given.backward else "exploding_activation",
        "gradient-flow",
        f"{what} grow until {given.name} overflows",
        f"{given.name} was given values up to {largest:.4g}, and its result no longer fits into {given.dtype}:"
        f" {'gradients' if given.backward else 'activations'} explode",
        ("lower the learning rate, clip gradients (clip_grad_norm_), or normalise (LayerNorm, BatchNorm)",),
        0.75,
    )


def _dropped_branch(given: Given) -> Reason | None:
    if not given.dropped:
        return None
    return Reason(
        "where_bad_branch",
        NUMERIC,
        f"gradient of {given.name} in a branch that was thrown away",
        f"{given.name} is bad at {int(given.number('bad'))} places whose values torch.where or a mask throws away; the"
        " backward pass still multiplies their slope by 0, and 0 * inf is NaN",
        (f"make the argument of {given.name} safe first: {given.name}(torch.where(ok, x, 1.)), then select",),
    )


def _weights(given: Given) -> Reason | None:
    """The bad values were there before: in a weight, or in what the step was fed."""
    if given.facts.get("kind") != "given":
        return None
    count, total, name = int(given.number("bad")), int(given.number("bad_of")), str(given.facts.get("name") or "")
    nan = given.number("bad_nan")
    bad = bad_kind(nan, given.number("bad") - nan, given.number("bad_neg_inf"))
    if name and given.facts.get("assigned"):
        return Reason(
            "nonfinite_weight",
            NUMERIC,
            f"{name} is assigned {bad}",
            f"this line writes {bad} into {name}; no operator made it out of finite values, and every result of the"
            " weight is bad from then on",
            (f"look at the value that is written into {name}: torch.isfinite(value).all() before the assignment",),
            0.85,
        )
    if name:
        return Reason(
            "nonfinite_weight",
            NUMERIC,
            f"{name} was not finite before the step",
            f"{given.name} was given {name}, in which {count} of {total} values are {bad} already",
            (f"check where {name} comes from: its initialisation, a checkpoint, or an earlier update",),
            0.7,
        )
    rows, place = str(given.facts.get("bad_row_list") or ""), str(given.facts.get("first_bad") or "")
    return Reason(
        "nan_in_input",
        "data",
        f"{bad} in the input",
        f"{count} of {total} values of the input data are {bad} when they reach {given.name}"
        + (f"; rows {rows} of the batch, the first at [{place.replace(',', ', ')}]" if place else ""),
        ("clean the data or skip such rows: keep = torch.isfinite(x).all(1)",),
        0.9,
    )


_Explain = Callable[[Given], Reason | None]
_FAMILIES: dict[_Explain, str] = {
    _log: "log log2 log10 log1p xlogy special_xlog1py",
    _sqrt: "sqrt",
    _rsqrt: "rsqrt",
    _norm: "norm linalg_vector_norm linalg_matrix_norm cdist pdist pairwise_distance dist cosine_similarity hypot",
    _division: "div true_divide divide reciprocal remainder fmod addcdiv foreach_addcdiv foreach_div",
    _spread: "std std_mean var var_mean",
    _exp: "exp expm1 exp2 sinh cosh softplus logcumsumexp cumprod prod foreach_exp",
    _softmax: "softmax log_softmax safe_softmax logsumexp scaled_dot_product_flash_attention_for_cpu",
    _arc: "acos asin atanh acosh arccos arcsin arctanh erfinv logit",
    _atan2: "atan2",
    _pow: "pow",
    _product: "mul add sub sum mean mm addmm bmm baddbmm matmul cumsum dot mv logaddexp linear",
    _mean_of_nothing: "mean nanmean median",
    _loss: "nll_loss nll_loss2d nll_loss_nd",
}
_BY_NAME: dict[str, list[_Explain]] = {}
for _function, _names in _FAMILIES.items():
    for _name in _names.split():
        _BY_NAME.setdefault(_name, []).append(_function)

FAMILIES = tuple(_BY_NAME)
"""The operators that have a reason of their own."""


def explain(replay: Replay) -> Reason | None:
    """Why the first bad operator of a replayed step went bad; None when its inputs do not tell."""
    given = Given(replay)
    first: list[_Explain] = [_weights]
    if given.facts.get("masked_rows"):
        first.append(_softmax)
    functions: list[_Explain] = [*first, *_BY_NAME.get(given.name, ()), _overflow, _dropped_branch, _mean_of_nothing]
    for function in functions:
        found = function(given)
        if found is not None:
            found = _in_half(replay, found)
            return replace(found, why=spoken(replay, found.why), fix=tuple(spoken(replay, f) for f in found.fix))
    return None


def _in_half(replay: Replay, found: Reason) -> Reason:
    """A zero that the line meant to avoid: the constant for it is lost in float16."""
    constant = lost_constant(replay) if found.fault in ("log_of_zero", "division_by_zero", "sqrt_zero_gradient") else ""
    if not constant:
        return found
    return replace(
        found,
        fault="eps_underflows_in_half",
        category="precision",
        title=f"{constant} is zero in float16: {found.title}",
        why=f"{found.why}. The line has {constant} to keep it away from 0, but in half precision (float16) nothing"
        " below 6e-8 is left of a number: it underflows to 0",
        fix=("compute this in float32: x.float(), or with torch.autocast switched off", "or use 1e-4 in float16"),
    )
