"""Statistics in plain NumPy: slow, simple, and the truth that every faster way is measured against.

Everything is judged as float64. Means and deviations are taken in two passes, so that they are right for data far
from zero; values near the ends of the float64 range are scaled first, so that no square overflows or vanishes.
Nothing here warns, and nothing holds more than one chunk as float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tensight.errors import UsageError
from tensight.records import Change, Needs, Stats, Within

Array = np.ndarray[Any, Any]

NO_NEEDS = Needs()

_CHUNK = 1 << 16
_SAFE_EXPONENT = 400  # squares of 2**±400, summed 2**200 times, stay inside float64


def statistics(array: Array, needs: Needs = NO_NEEDS, before: Array | None = None) -> Stats:
    """All statistics of `array`; with `before`, an earlier copy of it, also how it changed.

    Complex arrays count as twice as many reals, bool as 0 and 1.

    >>> stats = statistics(np.array([3.0, -4.0, np.nan], np.float32))
    >>> stats.nan, stats.min, stats.max, stats.l2
    (1, -4.0, 3.0, 5.0)
    """
    values = _as_reals(np.asarray(array))
    earlier = None if before is None else _as_reals(np.asarray(before))
    if earlier is not None and (earlier.shape != values.shape or earlier.dtype != values.dtype):
        raise UsageError(
            f"cannot compare a {values.dtype} tensor of shape {values.shape} with an earlier copy that is "
            f"{earlier.dtype} of shape {earlier.shape}: give a copy of the same shape and dtype"
        )
    with np.errstate(all="ignore"):
        if values.size == 0:
            return Stats(count=0, within=tuple(Within(start, end, 0) for start, end in needs.ranges))
        counts = _count(values, needs)
        return Stats(
            count=values.size,
            nan=counts.nan,
            pos_inf=counts.pos_inf,
            neg_inf=counts.neg_inf,
            zero=counts.zero,
            negative=counts.negative,
            positive=counts.positive,
            min=counts.min,
            max=counts.max,
            **_moments(values, counts),
            within=tuple(Within(start, end, n) for (start, end), n in zip(needs.ranges, counts.within)),
            change=None if earlier is None else _change(values, earlier, needs),
        )


class _Counts(NamedTuple):
    nan: int
    pos_inf: int
    neg_inf: int
    zero: int
    negative: int
    positive: int
    min: float | int | None
    max: float | int | None
    within: tuple[int, ...]

    @property
    def finite(self) -> int:
        return self.zero + self.negative + self.positive


def _as_reals(array: Array) -> Array:
    kind = array.dtype.kind
    if kind == "c":
        array = np.ascontiguousarray(array).reshape(array.shape)
        return array.reshape(-1).view(array.real.dtype)
    if kind == "b":
        return array.view(np.uint8) if array.dtype.itemsize == 1 else array.astype(np.uint8)
    if kind in "iuf":
        return array
    if kind == "V" and array.dtype.names is None:  # bfloat16 and 8-bit floats, as the package ml_dtypes gives them
        try:
            np.zeros(1, array.dtype).astype(np.float64)
            return array
        except (TypeError, ValueError):
            pass
    raise UsageError(f"a tensor of dtype {array.dtype} has no statistics: only floats, integers, bool and complex have")


def _chunks(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Equal pieces of arrays of one shape, in whatever order is quick to read."""
    flags: Any = ["external_loop", "buffered", "zerosize_ok"]
    walk = np.nditer(arrays, flags=flags, op_flags=[["readonly"]] * len(arrays), buffersize=_CHUNK, order="K")
    for piece in walk:
        yield piece if isinstance(piece, tuple) else (piece,)


def _is_integer(array: Array) -> bool:
    return array.dtype.kind in "iu"


def _count(values: Array, needs: Needs) -> _Counts:
    nan = pos_inf = neg_inf = zero = negative = positive = 0
    least: float | int | None = None
    most: float | int | None = None
    within = [0] * len(needs.ranges)
    integers = _is_integer(values)
    for (piece,) in _chunks(values):
        if integers:
            finite = piece
        else:
            x = piece.astype(np.float64)
            nan += int(np.count_nonzero(np.isnan(x)))
            pos_inf += int(np.count_nonzero(x == np.inf))
            neg_inf += int(np.count_nonzero(x == -np.inf))
            finite = x[np.isfinite(x)]
        if finite.size == 0:
            continue
        zero += int(np.count_nonzero(finite == 0))
        negative += int(np.count_nonzero(finite < 0))
        positive += int(np.count_nonzero(finite > 0))
        low, high = finite.min().item() + 0, finite.max().item() + 0  # -0.0 + 0 is 0.0
        least = low if least is None else min(least, low)
        most = high if most is None else max(most, high)
        for i, (start, end) in enumerate(needs.ranges):
            within[i] += _inside(finite, start, end)
    return _Counts(nan, pos_inf, neg_inf, zero, negative, positive, least, most, tuple(within))


def _inside(finite: Array, start: float, end: float) -> int:
    if _is_integer(finite):  # compared as integers, which float64 does not all have
        limits = np.iinfo(finite.dtype)
        if not start <= end or start > limits.max or end < limits.min:
            return 0
        low = finite.dtype.type(limits.min if start <= limits.min else math.ceil(start))
        high = finite.dtype.type(limits.max if end >= limits.max else math.floor(end))
        return int(np.count_nonzero((finite >= low) & (finite <= high)))
    return int(np.count_nonzero((finite >= start) & (finite <= end)))


def _moments(values: Array, counts: _Counts) -> dict[str, float]:
    n = counts.finite
    if n == 0 or counts.min is None or counts.max is None:
        return {}
    exponent = _scale(max(abs(counts.min), abs(counts.max)))
    constant = counts.min == counts.max  # then nothing needs rounding
    sums, absolutes, squares = [], [], []
    for x in _finite(values, exponent):
        sums.append(float(x.sum()))
        absolutes.append(float(np.abs(x).sum()))
        squares.append(float(np.square(x).sum()))
    mean = math.fsum(sums) / n
    deviation = math.fsum(float(np.square(x - mean).sum()) for x in _finite(values, exponent)) / n
    return {
        "mean": float(counts.min) if constant else _unscaled(mean, exponent),
        "abs_mean": abs(float(counts.min)) if constant else _unscaled(math.fsum(absolutes) / n, exponent),
        "std": 0.0 if constant else _unscaled(math.sqrt(deviation), exponent),
        "l2": _unscaled(math.sqrt(math.fsum(squares)), exponent),
    }


def _scale(largest: float | int) -> int:
    """The power of two to divide by: 0 for all but extreme data."""
    exponent = math.frexp(largest)[1]
    return exponent if largest and abs(exponent) > _SAFE_EXPONENT else 0


def _unscaled(value: float, exponent: int) -> float:
    return float(np.ldexp(value, exponent))


def _finite(values: Array, exponent: int) -> Iterator[Array]:
    for (piece,) in _chunks(values):
        x = piece.astype(np.float64)
        if not _is_integer(values):
            x = x[np.isfinite(x)]
        yield np.ldexp(x, -exponent) if exponent else x


def _change(now: Array, before: Array, needs: Needs) -> Change:
    count = moved = equal = 0
    largest = 0.0
    differences, earlier = [], []
    scale = _change_scale(now, before)
    for a, b in _chunks(now, before):
        equal += int(np.count_nonzero(_same_bits(a, b)))
        x, y = a.astype(np.float64), b.astype(np.float64)
        if _is_integer(a):
            difference = _integer_distance(a, b)
        else:
            both = np.isfinite(x) & np.isfinite(y)
            moved += int(np.count_nonzero(~both & ~((x == y) | (np.isnan(x) & np.isnan(y)))))
            x, y = x[both], y[both]
            difference = np.abs(x - y)
        size = np.abs(y)
        count += y.size
        moved += int(np.count_nonzero(difference > needs.atol + needs.rtol * size))
        largest = max(largest, float(difference.max(initial=0.0)))
        if scale:
            difference, size = np.abs(np.ldexp(x, -scale) - np.ldexp(y, -scale)), np.ldexp(size, -scale)
        differences.append(float(difference.sum()))
        earlier.append(float(size.sum()))
    return Change(
        count=count,
        abs_mean=_unscaled(math.fsum(differences) / count, scale) if count else 0.0,
        abs_max=largest,
        before_abs_mean=_unscaled(math.fsum(earlier) / count, scale) if count else 0.0,
        moved=moved,
        equal=equal,
        rtol=needs.rtol,
        atol=needs.atol,
    )


def _change_scale(now: Array, before: Array) -> int:
    """Sums of float64 values near its end overflow although their mean does not: scale those down."""
    if now.dtype.itemsize < 8 or _is_integer(now):
        return 0
    largest = 0.0
    for x, y in _chunks(now, before):
        both = np.isfinite(x) & np.isfinite(y)
        if both.any():
            largest = max(largest, float(np.abs(x[both]).max()), float(np.abs(y[both]).max()))
    return max(0, _scale(largest))


def _integer_distance(a: Array, b: Array) -> Array:
    """abs(a - b) as float64, exact before it is rounded once: also where int64 itself would overflow."""
    wide = np.uint64
    high, low = np.maximum(a, b), np.minimum(a, b)
    return (high.astype(wide) - low.astype(wide)).astype(np.float64)


def _same_bits(a: Array, b: Array) -> Array:
    if a.dtype.itemsize > 8:  # extended precision has padding bytes, which mean nothing
        a, b = a.astype(np.float64), b.astype(np.float64)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    same: Array = np.ascontiguousarray(a).view(unsigned) == np.ascontiguousarray(b).view(unsigned)
    return same
