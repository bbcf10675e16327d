"""Values of two tensors against each other, piece by piece: files of any size in little memory, in one pass."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from tensight.compare.noise import Distance, dot
from tensight.errors import DamagedError
from tensight.store import remote
from tensight.workers import Workers, batches

Array = np.ndarray[Any, Any]
PIECE = 1 << 16  # values; what two pieces need stays in the processor's cache
BATCH = 64 << 20  # bytes of one task
MOST_ULP = 1 << 20  # distances in units of the last place are taken of tensors up to this size
_SMALL, _LARGE = 1e-12, 1e15  # between these, squares of float32 neither vanish nor overflow
_STORED = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "?",
}


class Values(Protocol):
    """A tensor that can be read in pieces."""

    @property
    def size(self) -> int: ...
    def pieces(self) -> Iterator[Array]: ...
    def array(self) -> Array: ...


class Held:
    """An array in memory."""

    def __init__(self, array: Array) -> None:
        self._array = array

    @property
    def size(self) -> int:
        return int(self._array.size)

    def pieces(self) -> Iterator[Array]:
        flat = self._array.reshape(-1)
        for start in range(0, flat.size, PIECE):
            yield flat[start : start + PIECE]

    def array(self) -> Array:
        return self._array


class Stored:
    """A tensor of a safetensors file; each piece is only good until the next one is asked for."""

    def __init__(self, path: Path, offset: int, dtype: str, shape: tuple[int, ...]) -> None:
        self.path = path
        self.offset = offset
        self.dtype = np.dtype(dtype)
        self.shape = shape
        self.size = math.prod(shape)
        self.nbytes = self.size * self.dtype.itemsize

    def pieces(self) -> Iterator[Array]:
        room = np.empty(min(PIECE, self.size), self.dtype)
        at, end = self.offset, self.offset + self.size * self.dtype.itemsize
        handle = os.open(self.path, os.O_RDONLY)
        try:
            while at < end:
                part = room[: (end - at) // self.dtype.itemsize]
                got = os.preadv(handle, [part.data.cast("B")], at)
                if got != part.nbytes:
                    raise DamagedError(f"{self.path} ends before the last of its values")
                at += got
                yield part
        finally:
            os.close(handle)

    def array(self) -> Array:
        return np.fromfile(self.path, self.dtype, self.size, offset=self.offset).reshape(self.shape)


def stored(path: Path) -> dict[str, Stored]:
    """The tensors of a safetensors file that NumPy can hold; nothing when the file is gone."""
    path = path.absolute()  # a worker may stand elsewhere
    remote.fetch_missing(path)
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            size = path.stat().st_size
            if length > size - 8:
                raise ValueError("its header is longer than the file")
            header: Mapping[str, Any] = json.loads(file.read(length))
        found = {}
        for name, entry in header.items():
            if name == "__metadata__" or entry["dtype"] not in _STORED:
                continue
            one = Stored(path, 8 + length + entry["data_offsets"][0], _STORED[entry["dtype"]], tuple(entry["shape"]))
            if one.offset + one.size * one.dtype.itemsize > size:
                raise ValueError(f"it ends before the last value of {name}")
            found[name] = one
        return found
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise DamagedError(f"{path} is damaged: {error}") from error


class Measured(msgspec.Struct):
    """The usual columns of a comparison; `odd` counts places where only one side is NaN or infinite."""

    count: int = 0
    size_a: float = 0.0
    size_b: float = 0.0
    l2: float = 0.0
    max_abs: float = 0.0
    max_rel: float = 0.0
    within_1: int = 0
    within_5: int = 0
    odd: int = 0
    odd_nan: bool = False
    ulp: float | None = None

    def distance(self, floor: float, scale: float = 0.0) -> Distance:
        """The norm of the difference over the larger norm, or over `scale` where that is more."""
        if self.odd:
            return Distance(math.inf, floor, "nan" if self.odd_nan else "inf")
        size = max(self.size_a, self.size_b, scale)
        return Distance(self.l2 / size if size else 0.0, floor, "values")

    @property
    def columns(self) -> dict[str, float]:
        if not self.count:
            return {}
        product = self.size_a * self.size_b
        if product:
            # by the norm of the difference: as exact for nearly equal tensors as for others
            cosine = 1 - (self.l2**2 - (self.size_a - self.size_b) ** 2) / (2 * product)
        else:
            cosine = float(self.l2 == 0)
        found = {
            "cosine": cosine,
            "max_abs": self.max_abs,
            "max_rel": self.max_rel,
            "within_1e-3": self.within_1 / self.count,
            "within_5e-3": self.within_5 / self.count,
            "l2": self.l2,
        }
        return found if self.ulp is None else {**found, "max_ulp": self.ulp}


def measure(a: Values, b: Values) -> Measured:
    """All columns of two tensors of the same size.

    >>> found = measure(Held(np.array([1.0, 2.0])), Held(np.array([1.0, 2.5])))
    >>> found.max_abs, found.max_rel, round(found.columns["cosine"], 4)
    (0.5, 0.25, 0.9965)
    """
    total = Measured()
    squares_a = squares_b = squares = 0.0
    room = np.empty((3, PIECE), np.float32)
    for x, y in zip(a.pieces(), b.pieces()):
        sums = _quick(x, y, room, total) if x.dtype == y.dtype == np.float32 else None
        if sums is None:
            sums = _careful(x, y, total)
        squares_a, squares_b, squares = squares_a + sums[0], squares_b + sums[1], squares + sums[2]
        if a.size <= MOST_ULP and x.dtype == y.dtype and x.dtype in (np.float32, np.float64):
            total.ulp = max(total.ulp or 0.0, _ulp(x, y))
    total.size_a, total.size_b, total.l2 = math.sqrt(squares_a), math.sqrt(squares_b), math.sqrt(squares)
    return total


def measured_by(workers: Workers, pairs: Sequence[tuple[Stored, Stored]]) -> Iterator[Measured]:
    """The columns of each pair in turn; `workers` share the reading."""
    if not pairs:
        return
    tasks = batches(pairs, lambda pair: pair[0].nbytes + pair[1].nbytes, BATCH)
    for answers in workers.map(_measure_all, tasks, paths={one.path for pair in pairs for one in pair}):
        yield from answers


def _measure_all(pairs: Sequence[tuple[Stored, Stored]]) -> list[Measured]:
    """One task of a worker."""
    return [measure(a, b) for a, b in pairs]


def _quick(x: Array, y: Array, room: Array, total: Measured) -> tuple[float, float, float] | None:
    """A piece of float32 in single precision; None where that would not do."""
    n = x.size
    away, size, other = room[0, :n], room[1, :n], room[2, :n]
    with np.errstate(all="ignore"):
        np.subtract(x, y, out=away)
        np.abs(away, out=away)
        largest = float(away.max())
        if not math.isfinite(largest):
            return None
        ours, theirs = dot(x, x), dot(y, y)
        if largest == 0.0:
            if ours and not _SMALL**2 < ours < _LARGE**2:
                return None
            total.count += n
            total.within_1 += n
            total.within_5 += n
            return ours, ours, 0.0
        if not _SMALL**2 < ours < _LARGE**2 or not _SMALL**2 < theirs < _LARGE**2:
            return None
        np.abs(x, out=size)
        np.multiply(size, np.float32(1e-3), out=other)
        close = int(np.count_nonzero(away <= other))
        closer = close
        if close < n:
            np.multiply(size, np.float32(5e-3), out=other)
            closer = int(np.count_nonzero(away <= other))
        np.divide(away, size, out=other)
        total.max_rel = max(total.max_rel, float(np.fmax.reduce(other)))  # 0/0 is no error
        total.count += n
        total.within_1 += close
        total.within_5 += closer
        total.max_abs = max(total.max_abs, largest)
        scale = math.ldexp(1.0, min(-math.frexp(largest)[1], 126))
        np.multiply(away, np.float32(scale), out=away)  # so that squares of small differences do not vanish
        return ours, theirs, dot(away, away) / scale / scale


def _careful(x: Array, y: Array, total: Measured) -> tuple[float, float, float]:
    kind = np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64
    one, other = x.astype(kind), y.astype(kind)
    finite = np.isfinite(one) & np.isfinite(other)
    if not finite.all():
        odd = ~finite & ~((one == other) | (np.isnan(one) & np.isnan(other)))
        total.odd += int(np.count_nonzero(odd))
        total.odd_nan |= bool(np.isnan(one[odd]).any() or np.isnan(other[odd]).any())
        one, other = one[finite], other[finite]
    if not one.size:
        return 0.0, 0.0, 0.0
    away, size = np.abs(one - other), np.abs(one)
    relative = np.divide(away, size, out=np.where(away > 0, np.inf, 0.0), where=size != 0)
    total.count += away.size
    total.within_1 += int(np.count_nonzero(relative <= 1e-3))
    total.within_5 += int(np.count_nonzero(relative <= 5e-3))
    total.max_abs = max(total.max_abs, float(away.max()))
    total.max_rel = max(total.max_rel, float(relative.max()))
    return dot(size, size), float(np.sum(np.abs(other) ** 2)), dot(away, away)


def _ulp(x: Array, y: Array) -> float:
    """The largest distance in representable numbers, of values that are finite on both sides."""
    whole = np.int32 if x.dtype == np.float32 else np.int64
    finite = np.isfinite(x) & np.isfinite(y)
    least = np.iinfo(whole).min
    steps = []
    for side in (x[finite], y[finite]):
        bits = side.view(whole)
        steps.append(np.where(bits < 0, least - bits, bits).astype(np.float64))
    return float(np.abs(steps[0] - steps[1]).max(initial=0.0))
