"""Two loss curves and the band around the first, as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensight.compare.losses import BAND
from tensight.compare.result import LossPair
from tensight.runs.words import number

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 800, 240, 70, 24, 12
POINTS = 1000  # drawn at most


def curves(pairs: Sequence[LossPair], band: float = BAND) -> str:
    """The losses of A and B by step; '' where there are fewer than two finite ones.

    >>> curves([LossPair(0, 2.0, 2.0, 0.0), LossPair(1, 1.0, 1.1, 0.09)]).count("polyline")
    2
    """
    shown = [pair for pair in pairs if math.isfinite(pair.a) and math.isfinite(pair.b)]
    shown = shown[:: max(1, -(-len(shown) // POINTS))]
    if len(shown) < 2:
        return ""
    first, last = shown[0].step, shown[-1].step
    low = min(min(pair.a, pair.b) for pair in shown)
    high = max(max(pair.a, pair.b) for pair in shown)
    half = (high / 2 - low / 2) or 0.5

    def x(step: int) -> str:
        return f"{LEFT + (WIDTH - LEFT - 10) * (step - first) / (last - first):.1f}"

    def y(value: float) -> str:
        share = (value / 2 - low / 2) / half if high > low else 0.5
        return f"{HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * min(max(share, -0.05), 1.05):.1f}"

    above = [f"{x(pair.step)},{y(pair.a + abs(pair.a) * band)}" for pair in shown]
    below = [f"{x(pair.step)},{y(pair.a - abs(pair.a) * band)}" for pair in reversed(shown)]
    ours = " ".join(f"{x(pair.step)},{y(pair.a)}" for pair in shown)
    theirs = " ".join(f"{x(pair.step)},{y(pair.b)}" for pair in shown)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="losses of A and B by step">'
        f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - 10}"/>'
        f'<text x="{LEFT - 6}" y="{TOP + 4}" text-anchor="end">{number(high)}</text>'
        f'<text x="{LEFT - 6}" y="{HEIGHT - BOTTOM}" text-anchor="end">{number(low)}</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 6}">{first}</text>'
        f'<text x="{WIDTH - 10}" y="{HEIGHT - 6}" text-anchor="end">step {last}</text>'
        f'<polygon class="band" points="{" ".join((*above, *below))}"/>'
        f'<polyline class="line" points="{ours}"/><polyline class="other" points="{theirs}"/></svg>'
    )
