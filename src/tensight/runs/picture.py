"""What is drawn of a tensor's values: heat map, histogram, quantiles, a page of a table, an image, a difference."""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import msgspec
import numpy as np

from tensight.errors import UsageError

Array = np.ndarray[Any, Any]
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
CHUNK = 1 << 18  # values at a time: they stay in the processor's own memory
FEW, ORDINARY = 64, 1e30  # rows whose sum single precision holds well, and values whose sum it holds at all
SAMPLE = 1_000_000  # values of which quantiles are taken; of more, evenly spread ones


class ValueHistogram(msgspec.Struct, frozen=True):
    """How many finite values lie in each bin between `low` and `high`."""

    low: float
    high: float
    counts: tuple[int, ...]


class ValueDifference(msgspec.Struct, frozen=True):
    """Two tensors of the same shape, element by element."""

    count: int
    different: int  # beyond the tolerance: |a - b| > atol + rtol * |b|, or not finite in one of them only
    max_abs: float
    mean_abs: float
    first: tuple[int, ...] | None  # index of the first that differs
    worst: tuple[int, ...] | None


class Heat(msgspec.Struct, frozen=True):
    """A matrix made small enough to draw: each cell the mean, least and greatest of its block."""

    mean: Array
    least: Array
    greatest: Array
    rows: int  # of the matrix itself
    columns: int


def reals(array: Array) -> Array:
    """Values as numbers that can be drawn: booleans as 0 and 1, complex ones by their size."""
    if array.dtype.kind == "b":
        return array.astype(np.uint8)
    if array.dtype.kind == "c":
        with np.errstate(all="ignore"):
            return np.abs(array)
    return array


def histogram(array: Array, bins: int = 60) -> ValueHistogram | None:
    """A histogram of the finite values; None when there are none.

    >>> histogram(np.array([0.0, 1.0, 1.0, np.nan]), 2)
    ValueHistogram(low=0.0, high=1.0, counts=(1, 2))
    """
    values = finite(array)
    if not values.size:
        return None
    low, high = float(values.min()), float(values.max())
    if low == high:
        return ValueHistogram(low, high, (int(values.size),))
    counts = np.zeros(bins, dtype=np.int64)
    width = high / 2 - low / 2  # the whole width may be more than a float holds
    for start in range(0, values.size, CHUNK):
        with np.errstate(all="ignore"):
            part = values[start : start + CHUNK].astype(np.float64)
            part *= 0.5
            part -= low / 2
            part *= bins / width if math.isfinite(bins / width) else 0.0
            places = part.astype(np.int32)
        np.clip(places, 0, bins - 1, out=places)
        counts += np.bincount(places, minlength=bins)
    return ValueHistogram(low, high, tuple(counts.tolist()))


def quantiles(array: Array) -> dict[str, float]:
    """Quantiles of the finite values, by their share.

    >>> quantiles(np.arange(101.0))["0.25"]
    25.0
    """
    values = finite(array)
    if not values.size:
        return {}
    if values.size > SAMPLE:
        ends = (float(values.min()), float(values.max()))
        values = values[:: -(-values.size // SAMPLE)]
    else:
        ends = None
    with np.errstate(all="ignore"):
        found = np.quantile(values.astype(np.float64), QUANTILES)
    answer = {f"{share:g}": float(one) for share, one in zip(QUANTILES, found)}
    if ends is not None:
        answer["0"], answer["1"] = ends
    return answer


def finite(array: Array) -> Array:
    """The finite values, flat."""
    values = reals(array).reshape(-1)
    if values.dtype.kind in "iu":
        return values
    good = np.isfinite(values)
    return values if good.all() else values[good]


def matrix(array: Array) -> Array:
    """A tensor as rows and columns: the last dimension is columns, all others are rows.

    >>> matrix(np.zeros((2, 3, 4))).shape
    (6, 4)
    """
    values = reals(array)
    if values.ndim == 0:
        return values.reshape(1, 1)
    if values.ndim == 1:
        return values.reshape(1, -1)
    return values.reshape(-1, values.shape[-1]) if values.size else values.reshape(0, values.shape[-1])


def heat(array: Array, most: int = 512) -> Heat:
    """A matrix of at most `most` rows and columns. A block with a NaN or infinity shows it."""
    values = matrix(array)
    rows, columns = values.shape
    if not values.size:
        empty = np.zeros((0, 0), np.float32)
        return Heat(empty, empty, empty, rows, columns)
    across, down = _starts(rows, most), _starts(columns, most)
    if len(across) == rows and len(down) == columns:
        plain = _single(values)
        return Heat(plain, plain, plain, rows, columns)
    if values.dtype.kind not in "f" or values.dtype.itemsize < 4:
        values = values.astype(np.float32)
    with np.errstate(all="ignore"):
        sizes = np.outer(np.diff([*across, rows]), np.diff([*down, columns]))
        total = np.empty((len(across), columns))
        least, greatest = (np.empty((len(across), columns), values.dtype) for _ in range(2))
        # rows first, block by block: they lie in memory one after the other, and little is left for the columns
        for place, (start, end) in enumerate(zip(across, [*across[1:], rows])):
            block = values[start:end]
            block.min(axis=0, out=least[place])
            block.max(axis=0, out=greatest[place])
            # of few and ordinary values their own precision is enough, and it is twice as quick
            quick = len(block) <= FEW and -least[place].min() < ORDINARY and greatest[place].max() < ORDINARY
            total[place] = block.sum(axis=0, dtype=None if quick else np.float64)
        return Heat(
            _single(np.add.reduceat(total, down, axis=1) / sizes),
            _single(np.minimum.reduceat(least, down, axis=1)),
            _single(np.maximum.reduceat(greatest, down, axis=1)),
            rows,
            columns,
        )


def _starts(length: int, most: int) -> Array:
    return np.arange(length) if length <= most else np.linspace(0, length, most, endpoint=False).astype(np.int64)


def _single(values: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(values, dtype=np.float32)


def difference(a: Array, b: Array, rtol: float, atol: float) -> tuple[ValueDifference, Array]:
    """How two tensors differ, and a - b itself."""
    if a.shape != b.shape:
        raise UsageError(f"They cannot be compared: the shapes are {_shape(a)} and {_shape(b)}.")
    x, y = reals(a).astype(np.float64), reals(b).astype(np.float64)
    with np.errstate(all="ignore"):
        apart = x - y
        apart[(x == y) | (np.isnan(x) & np.isnan(y))] = 0.0  # Inf - Inf is no difference
        size = np.abs(apart)
        beyond = ~(size <= atol + rtol * np.abs(y)) & (apart != 0.0)
        good = np.isfinite(size)
        places = np.flatnonzero(beyond)
        worst = int(np.argmax(np.where(np.isnan(size), math.inf, size))) if size.size else 0
        found = ValueDifference(
            count=int(a.size),
            different=int(places.size),
            max_abs=float(size[good].max()) if good.any() else 0.0,
            mean_abs=float(size[good].mean()) if good.any() else 0.0,
            first=_index(int(places[0]), a.shape) if places.size else None,
            worst=_index(worst, a.shape) if places.size else None,
        )
    return found, apart


def image_count(shape: tuple[int, ...]) -> int:
    """How many images a tensor of this shape holds; 0 when it does not look like images.

    >>> image_count((32, 3, 28, 28)), image_count((32, 84)), image_count((28, 28, 3))
    (32, 0, 1)
    """
    if len(shape) == 4 and _is_image(shape[1:]):
        return shape[0]
    return 1 if len(shape) == 3 and _is_image(shape) else 0


def _is_image(shape: tuple[int, ...]) -> bool:
    first, _, last = shape
    sides = shape[1:] if first in (1, 3, 4) else shape[:2] if last in (1, 3, 4) else (0, 0)
    return all(8 <= side <= 4096 for side in sides)


def image(array: Array, place: int) -> bytes:
    """One image of a tensor as PNG, its least value black and its greatest white."""
    if not 0 <= place < image_count(array.shape):
        raise UsageError(f"There is no image {place} in a tensor of shape {_shape(array)}.")
    values = reals(array[place] if array.ndim == 4 else array).astype(np.float64)
    if values.shape[0] in (1, 3, 4) and values.shape[1] >= 8:
        values = np.moveaxis(values, 0, -1)
    good = values[np.isfinite(values)]
    low, high = (float(good.min()), float(good.max())) if good.size else (0.0, 1.0)
    with np.errstate(all="ignore"):
        level = np.nan_to_num((values - low) / ((high - low) or 1.0) * 255, nan=0.0, posinf=255.0, neginf=0.0)
    return png(np.clip(np.rint(level), 0, 255).astype(np.uint8))


def png(pixels: Array) -> bytes:
    """Pixels (height, width, 1, 3 or 4 channels) as a PNG file."""
    height, width, channels = pixels.shape
    colour = {1: 0, 3: 2, 4: 6}[channels]
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def _index(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(one) for one in np.unravel_index(place, shape)) if shape else ()


def _shape(array: Array) -> str:
    return "×".join(map(str, array.shape)) or "scalar"
