"""Which pieces of a tensor, seen apart by several ranks or micro-steps, belong together on two sides."""

from __future__ import annotations

from collections.abc import Sequence

from tensight.records import Stats
from tensight.stats.joining import joined


def fitting(ours: Sequence[Stats], theirs: Sequence[Stats]) -> tuple[Stats, Stats]:
    """Which statistics of two sides belong together: replicas stand for each other, pieces are put together.

    >>> piece = Stats(2, zero=2, min=0.0, max=0.0, mean=0.0, abs_mean=0.0, std=0.0, l2=0.0)
    >>> whole = joined([piece, piece])
    >>> [one.count for one in fitting([whole], [piece, piece])], [one.count for one in fitting([whole], [whole, whole])]
    ([4, 4], [4, 4])
    """
    a, b = ours[0], theirs[0]
    if a.count == b.count and not (len(ours) == len(theirs) > 1):
        return a, b
    choices_a, choices_b = (joined(ours), a), (joined(theirs), b)
    for one in choices_a:
        for other in choices_b:
            if one.count == other.count:
                return one, other
    return a, b
