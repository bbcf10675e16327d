"""A curve over steps as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from tensight.runs.words import number

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 800, 240, 70, 24, 12
POINTS = 1200  # drawn at most
LOGARITHMIC = 50.0  # ratio of the largest to the smallest value from which on the scale is logarithmic
MARKS = 40

Points = Sequence[tuple[int, float]]


def curve(points: Points, marks: Mapping[int, str] | None = None) -> str:
    """Values by step; `marks` are steps with a word. Values that are not finite are crosses at the top.

    >>> "polyline" in curve([(0, 2.0), (1, 1.0), (2, float("nan"))], {2: "loss is NaN"})
    True
    """
    finite = [(step, value) for step, value in points if math.isfinite(value)]
    if not finite:
        return ""
    first, last = points[0][0], max(points[-1][0], points[0][0] + 1)
    low, high = min(value for _, value in finite), max(value for _, value in finite)
    logarithmic = low > 0 and high / low > LOGARITHMIC
    scale = math.log10 if logarithmic else float
    bottom, top = scale(low), scale(high)
    # halves first: the span of the largest floats is beyond them
    half = (top / 2 - bottom / 2) or 0.5

    def x(step: int) -> float:
        return LEFT + (WIDTH - LEFT - 10) * (step - first) / (last - first)

    def y(value: float) -> float:
        share = (scale(value) / 2 - bottom / 2) / half if top > bottom else 0.5
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="loss by step">',
        f'<path class="axis" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - 10}"/>',
        f'<text x="{LEFT - 6}" y="{y(high) + 4:.1f}" text-anchor="end">{number(high)}</text>',
        f'<text x="{LEFT - 6}" y="{y(low) + 4:.1f}" text-anchor="end">{number(low) if low < high else ""}</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 6}">{first}</text>',
        f'<text x="{WIDTH - 10}" y="{HEIGHT - 6}" text-anchor="end">step {points[-1][0]}</text>',
    ]
    if logarithmic:
        parts.append(f'<text x="{LEFT + 6}" y="{TOP + 8}">logarithmic</text>')
    for step, word in list((marks or {}).items())[:MARKS]:
        if first <= step <= last:
            place = f'x1="{x(step):.1f}" x2="{x(step):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"'
            parts.append(f'<line class="mark" {place}><title>step {step}: {escape(word)}</title></line>')
    for piece in _pieces(_thinned(points)):
        drawn = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in piece)
        if len(piece) == 1:
            step, value = piece[0]
            parts.append(f'<circle class="line" cx="{x(step):.1f}" cy="{y(value):.1f}" r="1.5"/>')
        else:
            parts.append(f'<polyline class="line" points="{drawn}"/>')
    bad = [(step, value) for step, value in points if not math.isfinite(value)]
    for step, value in bad[:: max(1, len(bad) // MARKS)]:
        parts.append(
            f'<text class="bad" x="{x(step):.1f}" y="{TOP + 4}" text-anchor="middle">×'
            f"<title>step {step}: {value}</title></text>"
        )
    return "".join(parts) + "</svg>"


def _thinned(points: Points) -> list[tuple[int, float]]:
    """As many points as can be seen: of each stretch its lowest and highest, and whatever is not finite."""
    if len(points) <= POINTS:
        return list(points)
    stretch = -(-len(points) // (POINTS // 2))
    kept: list[tuple[int, float]] = []
    for begin in range(0, len(points), stretch):
        part = points[begin : begin + stretch]
        finite = [point for point in part if math.isfinite(point[1])]
        ends = {min(finite, key=lambda p: p[1]), max(finite, key=lambda p: p[1])} if finite else set()
        kept += sorted(ends)
        if len(finite) < len(part):
            kept.append((part[-1][0], math.nan))
    return kept


def _pieces(points: Points) -> list[list[tuple[int, float]]]:
    """Runs of finite values."""
    pieces: list[list[tuple[int, float]]] = [[]]
    for point in points:
        if math.isfinite(point[1]):
            pieces[-1].append(point)
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]
