"""Pieces of one tensor, seen apart by several ranks or micro-steps, as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensight.records import Stats


def joined(pieces: Sequence[Stats]) -> Stats:
    """The statistics of all pieces together.

    >>> one = Stats(2, positive=2, min=1.0, max=3.0, mean=2.0, abs_mean=2.0, std=1.0, l2=10.0**0.5)
    >>> joined([one, one]).count, joined([one, one]).std
    (4, 1.0)
    """
    if len(pieces) == 1:
        return pieces[0]
    finite = [one for one in pieces if one.finite and one.mean is not None]
    total = sum(one.finite for one in finite)

    def over(name: str) -> float:
        return math.fsum(float(getattr(one, name) or 0.0) * one.finite for one in finite) / total

    spread: dict[str, Any] = {}
    if total:
        mean = over("mean")
        variance = math.fsum(
            one.finite * ((one.std or 0.0) ** 2 + (float(one.mean or 0.0) - mean) ** 2) for one in finite
        )
        spread = {
            "min": min(one.min for one in finite if one.min is not None),
            "max": max(one.max for one in finite if one.max is not None),
            "mean": mean,
            "abs_mean": over("abs_mean"),
            "std": math.sqrt(variance / total),
            "l2": math.sqrt(math.fsum((one.l2 or 0.0) ** 2 for one in finite)),
        }
    counts = {
        name: sum(getattr(one, name) for one in pieces)
        for name in ("count", "nan", "pos_inf", "neg_inf", "zero", "negative", "positive")
    }
    return Stats(**counts, **spread)
