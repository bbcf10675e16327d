"""The losses of two runs side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensight.compare import noise
from tensight.compare.result import LossPair, LossVerdict
from tensight.compare.sides import Side

BAND = 1e-3  # a loss that stays within one thousandth of the reference's counts as reproduced
_GROWTH = 4.0  # rounding grows from step to step


def curve(a: Side, b: Side, steps: Sequence[int]) -> list[LossPair]:
    """The losses of the steps for which both runs have one, of the same batch."""
    found = []
    for step in steps:
        if a.micros(step) != b.micros(step):
            continue  # each backward pass has the loss of its own part of the batch
        one, other = a.loss(step), b.loss(step)
        if one is not None and other is not None:
            found.append(LossPair(step, one, other, relative(one, other)))
    return found


def relative(a: float, b: float) -> float:
    """How far two losses are apart.

    >>> relative(2.0, 1.0), relative(float("nan"), float("nan")), relative(1.0, float("nan"))
    (0.5, 0.0, inf)
    """
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    size = max(abs(a), abs(b))
    return abs(a - b) / size if math.isfinite(size) and not math.isnan(a + b) else math.inf


def judged(pairs: Sequence[LossPair], rounding: float) -> LossVerdict:
    """The first loss that rounding does not explain: of the first step, the forward pass is wrong; of a later one,
    the backward pass or the update."""
    tolerance = noise.MARGIN * noise.MARGIN * rounding if rounding <= noise.SINGLE else noise.MARGIN * rounding
    if not pairs:
        return LossVerdict(None, "none")
    start = pairs[0].step
    for pair in pairs:
        if pair.relative > tolerance * min(_GROWTH ** min(pair.step - start, 20), 1e3):
            return LossVerdict(pair.step, "forward" if pair.step == start else "backward_or_update", pair.a, pair.b)
    return LossVerdict(None, "none")


def equal(pairs: Sequence[LossPair]) -> bool:
    """Whether the losses agree bit by bit."""
    return all(repr(pair.a) == repr(pair.b) for pair in pairs)


def within(pairs: Sequence[LossPair], band: float = BAND) -> float:
    """The share of steps whose losses lie within the band.

    >>> within([LossPair(0, 1.0, 1.0005, 0.0005), LossPair(1, 1.0, 1.1, 0.09)])
    0.5
    """
    return sum(pair.relative <= band for pair in pairs) / len(pairs) if pairs else 1.0
