"""Samples a large grid so that every pair of values of two axes occurs together."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def pairwise(axes: Mapping[str, Sequence[T]]) -> list[dict[str, T]]:
    """Few combinations that hold every pair. The choice is greedy and always the same.

    >>> cases = pairwise({"a": [1, 2, 3], "b": [1, 2], "c": [1, 2]})
    >>> len(cases) < 12
    True
    """
    names = list(axes)
    missing = {
        (one, a, other, b)
        for one, other in itertools.combinations(range(len(names)), 2)
        for a in range(len(axes[names[one]]))
        for b in range(len(axes[names[other]]))
    }
    found: list[dict[str, T]] = []
    while missing:
        one, a, other, b = min(missing)
        case = {one: a, other: b}
        for axis in range(len(names)):
            if axis not in case:
                values = range(len(axes[names[axis]]))
                case[axis] = max(values, key=lambda value: (_covers(case, axis, value, missing), -value))
        chosen = [case[axis] for axis in range(len(names))]
        for first, second in itertools.combinations(range(len(names)), 2):
            missing.discard((first, chosen[first], second, chosen[second]))
        found.append({name: axes[name][chosen[axis]] for axis, name in enumerate(names)})
    return found


def _covers(case: dict[int, int], axis: int, value: int, missing: set[tuple[int, int, int, int]]) -> int:
    return sum(
        ((other, chosen, axis, value) if other < axis else (axis, value, other, chosen)) in missing
        for other, chosen in case.items()
    )
