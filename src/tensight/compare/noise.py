"""How far two tensors are apart, and how far rounding alone may drive them.

Both are relative to the size of the tensor. Values that were kept are compared element by element. Otherwise their
statistics are: none of these can differ by more than the tensors do, so a difference in them is proof, while equal
statistics are not (a permutation changes none).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tensight.records import Stats

Array = np.ndarray[Any, Any]

MARGIN = 10.0  # how many times the floor is still called rounding
BACKWARD = 10.0  # gradients are sums of terms that cancel: their floor lies higher
SMALL_GRADIENT = 0.02  # gradients below this share of the largest are judged against that share
_STRETCH = 8192  # values: with fewer than 10,000 one thread is used
EXTREMES = 8.0  # one element moves further than all together

# the largest relative error of one rounding
ROUNDING = {
    "float64": 2.0**-53,
    "complex128": 2.0**-53,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-9,
    "float8_e4m3fn": 2.0**-4,
    "float8_e5m2": 2.0**-3,
}
SINGLE = 2.0**-24


class Distance(NamedTuple):
    """`error` over `floor` is the ratio that decides; `by` says what differed most."""

    error: float
    floor: float
    by: str = ""

    @property
    def ratio(self) -> float:
        if self.error == 0:
            return 0.0
        return self.error / self.floor if self.floor else math.inf


class Floor:
    """The floor as a step goes on: the coarsest dtype so far rules, and roundings add up like a random walk."""

    def __init__(self) -> None:
        self._rounding = 0.0
        self._seen = 0

    def passed(self, dtype_a: str, dtype_b: str) -> None:
        """One more tensor was computed."""
        self._rounding = max(self._rounding, rounding(dtype_a), rounding(dtype_b))
        self._seen += 1

    @property
    def rounding(self) -> float:
        return self._rounding or SINGLE

    @property
    def value(self) -> float:
        return self.rounding * max(1.0, math.sqrt(self._seen) / 2)


def rounding(dtype: str) -> float:
    """The largest relative error of one rounding.

    >>> rounding("bfloat16") / rounding("float32")
    32768.0
    """
    return ROUNDING.get(dtype, SINGLE)


def between(a: Stats, b: Stats, floor: float, scale: float = 0.0) -> Distance:
    """The distance of two tensors by their statistics; `scale` is the least l2 norm to be measured against.

    >>> x = Stats(4, positive=4, min=1.0, max=1.0, mean=1.0, abs_mean=1.0, std=0.0, l2=2.0)
    >>> between(x, x, 1e-7).error
    0.0
    """
    if a.count != b.count:
        return Distance(math.inf, floor, "count")
    if (a.nan, a.pos_inf, a.neg_inf) != (b.nan, b.pos_inf, b.neg_inf):
        return Distance(math.inf, floor, "nan" if a.nan != b.nan else "inf")
    if a.l2 is None or b.l2 is None or a.finite == 0:
        return Distance(0.0, floor)
    size = max(a.l2, b.l2, scale)
    if size == 0:
        return Distance(0.0, floor)
    root = math.sqrt(a.finite)
    averaged = floor if floor < 1e-5 else floor * max(0.15, min(1.0, 3 / root))  # coarse roundings cancel in sums
    found = [Distance(abs(a.l2 - b.l2) / size, averaged, "l2")]
    for name in ("mean", "abs_mean", "std"):
        one, other = getattr(a, name), getattr(b, name)
        if one is not None and other is not None:
            found.append(Distance(abs(one - other) * root / size, averaged, name))
    largest = max(abs(float(value)) for value in (a.min or 0, a.max or 0, b.min or 0, b.max or 0))
    largest = max(largest, scale / root)
    for name in ("min", "max"):
        one, other = getattr(a, name), getattr(b, name)
        if one is not None and other is not None and largest:
            found.append(Distance(abs(float(one) - float(other)) / largest, floor * EXTREMES, name))
    worst = max(found, key=lambda one: one.ratio)
    return worst if worst.error else Distance(0.0, floor)


def elementwise(a: Array, b: Array, floor: float, scale: float = 0.0) -> Distance:
    """The distance of two tensors by their values: the norm of the difference over the larger norm."""
    if same(a, b):
        return Distance(0.0, floor, "values")
    x, y = np.asarray(a, np.float64).reshape(-1), np.asarray(b, np.float64).reshape(-1)
    if x.size != y.size:
        return Distance(math.inf, floor, "count")
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.all():
        odd = ~finite & ~((x == y) | (np.isnan(x) & np.isnan(y)))
        if odd.any():
            return Distance(math.inf, floor, "nan" if np.isnan(x[odd]).any() or np.isnan(y[odd]).any() else "inf")
        x, y = x[finite], y[finite]
    size = max(_norm(x), _norm(y), scale)
    return Distance(_norm(x - y) / size if size else 0.0, floor, "values")


def same(a: Array, b: Array) -> bool:
    """Whether two tensors hold the same numbers, none of them NaN: quickly seen, and most of two checkpoints may be."""
    return a.dtype == b.dtype and np.array_equal(a, b)


def _norm(x: Array) -> float:
    return math.sqrt(dot(x, x))


def dot(a: Array, b: Array) -> float:
    """The sum of products of two vectors.

    A stretch at a time: over longer ones the library under NumPy shares the work between threads, and then the last
    digits depend on how many there are.
    """
    return sum((float(np.dot(a[at : at + _STRETCH], b[at : at + _STRETCH])) for at in range(0, a.size, _STRETCH)), 0.0)


def columns(a: Array, b: Array) -> dict[str, float]:
    """The usual columns of a comparison, of values that are finite on both sides.

    >>> columns(np.zeros(2, np.float32), np.zeros(2, np.float32)) == columns(np.zeros(2), np.zeros(2, np.float32))
    True
    """
    if a.size and same(a, b) and (a.dtype.kind not in "fcV" or np.isfinite(a).all()):
        return {"cosine": 1.0, "max_abs": 0.0, "max_rel": 0.0, "within_1e-3": 1.0, "within_5e-3": 1.0, "l2": 0.0}
    x, y = np.asarray(a, np.float64).reshape(-1), np.asarray(b, np.float64).reshape(-1)
    both = np.isfinite(x) & np.isfinite(y)
    if not both.all():
        x, y = x[both], y[both]
    if not x.size:
        return {}
    distance = np.abs(x - y)
    relative = np.divide(distance, np.abs(x), out=np.where(distance > 0, np.inf, 0.0), where=x != 0)
    product = _norm(x) * _norm(y)
    return {
        "cosine": dot(x, y) / product if product else float(not distance.any()),
        "max_abs": float(distance.max()),
        "max_rel": float(relative.max()),
        "within_1e-3": float(np.mean(relative < 1e-3)),
        "within_5e-3": float(np.mean(relative < 5e-3)),
        "l2": _norm(x - y),
    }
