"""Statistics of values in a file, a piece at a time: memory stays bounded however large a tensor is."""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tensight.dump.readers.base import Array, Raw
from tensight.errors import DamagedError, TensightError
from tensight.records import Change, Needs, Stats, Within
from tensight.stats import native, statistics
from tensight.store.links import widened
from tensight.workers import Workers, batches

PIECE = 16 << 20
"""Bytes that are read at once."""
BATCH = 64 << 20
"""Bytes of one task."""
_NO_NEEDS = Needs()
_EXOTIC = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def measure(raw: Raw, needs: Needs = _NO_NEEDS, before: Raw | None = None) -> Stats:
    """Statistics of a tensor in a file, and its change against an earlier one of the same shape and dtype."""
    if before is not None and (before.held, before.shape) != (raw.held, raw.shape):
        before = None
    if not raw.elements:
        return statistics(np.empty((0,), np.float32), needs)
    total: Stats | None = None
    earlier = pieces(before) if before is not None else None
    for piece in pieces(raw):
        part = _of(piece, raw.dtype, needs, next(earlier) if earlier is not None else None)
        total = part if total is None else merged(total, part)
    assert total is not None  # there is at least one value
    return total


class Request(NamedTuple):
    """A tensor to be measured, wherever that is done."""

    raw: Raw
    needs: Needs = _NO_NEEDS
    before: Raw | None = None

    @property
    def nbytes(self) -> int:
        return self.raw.nbytes


def measured_by(workers: Workers, requests: Iterable[Request], root: Path) -> Generator[Stats | str, None, None]:
    """Statistics of each in turn, or a sentence about what could not be read; `root` is what workers must see."""
    here = os.path.abspath
    absolute = (
        Request(
            request.raw._replace(file=Path(here(request.raw.file))),
            request.needs,
            None if request.before is None else request.before._replace(file=Path(here(request.before.file))),
        )
        for request in requests
    )
    tasks = batches(absolute, lambda request: request.nbytes, BATCH)
    for answers in workers.map(measure_all, tasks, paths=[root]):
        yield from answers


def measure_all(requests: Sequence[Request]) -> list[Stats | str]:
    """One task of a worker."""
    answers: list[Stats | str] = []
    for raw, needs, before in requests:
        try:
            answers.append(measure(raw, needs, before))
        except (TensightError, OSError) as error:
            answers.append(f"{raw.file.name}: {error}")
    return answers


def pieces(raw: Raw) -> Iterator[Array]:
    """The values in the order of the file. The array is used again for each piece."""
    dtype = np.dtype(raw.held)
    each = max(1, PIECE // dtype.itemsize)
    room = np.empty(min(each, raw.elements), dtype)
    left = raw.elements
    with open(raw.file, "rb", buffering=0) as file:
        file.seek(raw.offset)
        while left:
            piece = room[: min(each, left)]
            view = piece.view(np.uint8).data
            while view:
                got = file.readinto(view)
                if not got:
                    raise DamagedError(f"{raw.file.name} became shorter while it was read")
                view = view[got:]
            left -= piece.size
            yield piece if dtype.isnative else piece.astype(dtype.newbyteorder("="))


def _of(piece: Array, dtype: str, needs: Needs, before: Array | None) -> Stats:
    if dtype in _EXOTIC:
        if native.available():
            old = None if before is None else before.ctypes.data
            return native.contiguous(piece.ctypes.data, dtype, piece.size, needs, old)
        return statistics(widened(piece, dtype), needs, None if before is None else widened(before, dtype))
    return statistics(piece, needs, before)


def values(raw: Raw) -> Array:
    """All values of a tensor; dtypes that NumPy lacks come as float32, which holds them exactly."""
    size = os.stat(raw.file).st_size
    raw.check(size)
    if not raw.elements:
        return np.empty(raw.shape, raw.held)
    array: Any = np.fromfile(raw.file, raw.held, raw.elements, offset=raw.offset)
    if array.size < raw.elements:
        raise DamagedError(f"{raw.file.name} became shorter while it was read")
    array = array.reshape(raw.shape, order="F" if raw.fortran else "C")
    return widened(array, raw.dtype)


def merged(a: Stats, b: Stats) -> Stats:
    """Statistics of two parts together.

    >>> both = merged(statistics(np.array([1.0, 2.0])), statistics(np.array([4.0, 9.0, np.nan])))
    >>> both.count, both.nan, both.max, both.mean, round(both.std, 6)
    (5, 1, 9.0, 4.0, 3.082207)
    """
    if not a.finite or not b.finite:
        some = a if a.finite else b
        mean, abs_mean, std, l2, low, high = some.mean, some.abs_mean, some.std, some.l2, some.min, some.max
    else:
        n, m = a.finite, b.finite
        mean = _weighted(a.mean, n, b.mean, m)
        abs_mean = _weighted(a.abs_mean, n, b.abs_mean, m)
        spread = n * ((a.std or 0.0) ** 2 + ((a.mean or 0.0) - mean) ** 2)
        spread += m * ((b.std or 0.0) ** 2 + ((b.mean or 0.0) - mean) ** 2)
        std = math.sqrt(spread / (n + m)) if math.isfinite(spread) else max(a.std or 0.0, b.std or 0.0)
        l2 = math.hypot(a.l2 or 0.0, b.l2 or 0.0)
        low = min(x for x in (a.min, b.min) if x is not None)
        high = max(x for x in (a.max, b.max) if x is not None)
    return Stats(
        count=a.count + b.count,
        nan=a.nan + b.nan,
        pos_inf=a.pos_inf + b.pos_inf,
        neg_inf=a.neg_inf + b.neg_inf,
        zero=a.zero + b.zero,
        negative=a.negative + b.negative,
        positive=a.positive + b.positive,
        min=low,
        max=high,
        mean=mean,
        abs_mean=abs_mean,
        std=std,
        l2=l2,
        within=tuple(Within(x.start, x.end, x.count + y.count) for x, y in zip(a.within, b.within)),
        change=_changes(a.change, b.change),
    )


def _changes(a: Change | None, b: Change | None) -> Change | None:
    if a is None or b is None:
        return None
    return msgspec.structs.replace(
        a,
        count=a.count + b.count,
        abs_mean=_weighted(a.abs_mean, a.count, b.abs_mean, b.count),
        abs_max=max(a.abs_max, b.abs_max),
        before_abs_mean=_weighted(a.before_abs_mean, a.count, b.before_abs_mean, b.count),
        moved=a.moved + b.moved,
        equal=a.equal + b.equal,
    )


def _weighted(a: float | None, n: int, b: float | None, m: int) -> float:
    share = n / (n + m) if n + m else 0.0
    return (a or 0.0) * share + (b or 0.0) * (1 - share)
