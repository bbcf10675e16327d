"""A checkpoint in memory: named tensors, read when they are asked for, and the plain values beside them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tensight.errors import CheckpointError
from tensight.records import Stats
from tensight.stats import native, statistics

Array = np.ndarray[Any, Any]
Plain = bool | int | float | str | None

# dtype → how its bytes are held in NumPy, which has no bfloat16 and no 8-bit floats
HELD = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "bfloat16": "<u2",
    "float8_e4m3fn": "u1",
    "float8_e5m2": "u1",
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "i1",
    "uint64": "<u8",
    "uint32": "<u4",
    "uint16": "<u2",
    "uint8": "u1",
    "bool": "?",
    "complex64": "<c8",
    "complex128": "<c16",
}
_EXOTIC = frozenset(("bfloat16", "float8_e4m3fn", "float8_e5m2"))


class Entry(msgspec.Struct, frozen=True):
    """One tensor of a checkpoint. `held()` gives its elements as the file has them: bfloat16 as uint16."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    held: Callable[[], Array]
    trainable: bool | None = None  # None where the file does not say

    @property
    def count(self) -> int:
        total = 1
        for length in self.shape:
            total *= length
        return total

    def numpy(self) -> Array:
        """Its values; dtypes that NumPy lacks come as float32, which holds them exactly."""
        return decoded(self.held(), self.dtype)

    def bytes(self) -> Array:
        """Its elements in order, as bytes."""
        array = np.ascontiguousarray(self.held())
        return array.reshape(-1).view(np.uint8)

    def stats(self) -> Stats:
        """One pass over its values."""
        held = np.ascontiguousarray(np.require(self.held(), requirements="A"))
        if self.dtype in _EXOTIC:
            if native.available() and held.size:
                return native.one(held.ctypes.data, self.dtype, (held.size,), (1,))
            return statistics(decoded(held, self.dtype))
        return statistics(held)

    def renamed(self, name: str, shape: tuple[int, ...] | None = None) -> Entry:
        """The same tensor under another name, and, with as many elements, in another shape."""
        if shape is None or shape == self.shape:
            return msgspec.structs.replace(self, name=name)
        held = self.held
        return msgspec.structs.replace(self, name=name, shape=shape, held=lambda: held().reshape(shape))


class Checkpoint(msgspec.Struct):
    """A checkpoint: `framework` says whose names it uses, 'torch', 'mindspore' or '' where nothing tells."""

    path: Path
    format: str
    framework: str
    entries: dict[str, Entry]
    nested: frozenset[str] = frozenset()  # names of the dictionaries inside the file: 'model', 'optimizer.state'
    values: dict[str, Plain] = {}  # plain values beside the tensors: epoch, learning rate, …
    unread: dict[str, str] = {}  # what is neither tensor nor plain value, by its type: listed, and not looked into

    @property
    def total(self) -> int:
        """How many numbers all tensors hold."""
        return sum(entry.count for entry in self.entries.values())


def of_array(name: str, array: Array, dtype: str = "", trainable: bool | None = None) -> Entry:
    """An entry made of an array in memory."""
    return Entry(name, dtype or array.dtype.name, array.shape, lambda: array, trainable)


def view(file: Array, offset: int, dtype: str, shape: tuple[int, ...], name: str) -> Callable[[], Array]:
    """Reads contiguous elements of a mapped file; what leaves the file is refused at once."""
    size = np.dtype(HELD[dtype]).itemsize
    count = 1
    for length in shape:
        if length < 0:
            raise CheckpointError(f"{name} has the negative dimension {length}: the file is damaged")
        count *= length
    if offset < 0 or offset + count * size > file.size:
        raise CheckpointError(f"the file ends before the last element of {name}: it is cut off or damaged")
    return lambda: np.frombuffer(file, HELD[dtype], count, offset).reshape(shape) if count else _empty(dtype, shape)


def _empty(dtype: str, shape: tuple[int, ...]) -> Array:
    return np.empty(shape, HELD[dtype])


def mapped(path: Path) -> Array:
    """A file as bytes that are read when touched."""
    try:
        if path.stat().st_size == 0:
            raise CheckpointError(f"{path} is empty: no checkpoint was written to it")
        return np.memmap(path, np.uint8, "r")
    except FileNotFoundError:
        raise CheckpointError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise CheckpointError(f"{path} is a folder: name one of the checkpoint files in it") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def decoded(held: Array, dtype: str) -> Array:
    """Held elements as numbers.

    >>> decoded(np.array([0x3F80, 0xC000], np.uint16), "bfloat16").tolist()
    [1.0, -2.0]
    >>> decoded(np.array([0x38, 0x7F], np.uint8), "float8_e4m3fn").tolist()
    [1.0, nan]
    """
    if dtype == "bfloat16":
        bits: Array = held.astype(np.uint32) << 16
        return bits.view(np.float32)
    if dtype in _EXOTIC:
        found: Array = _table(dtype)[held]
        return found
    return held


@cache
def _table(dtype: str) -> Array:
    """The value of each of the 256 patterns of an 8-bit float."""
    fraction_bits, bias = (3, 7) if dtype == "float8_e4m3fn" else (2, 15)
    codes = np.arange(128)
    exponent, fraction = codes >> fraction_bits, codes & ((1 << fraction_bits) - 1)
    part = fraction / (1 << fraction_bits)
    values = np.where(exponent == 0, np.ldexp(part, 1 - bias), np.ldexp(1 + part, exponent - bias))
    if dtype == "float8_e4m3fn":
        values[127] = np.nan
    else:
        values[exponent == 31] = np.nan
        values[124] = np.inf
    table: Array = np.concatenate([values, -values]).astype(np.float32)
    return table
