"""Kept tensors that stay where they are: a list of places in other files, instead of a copy.

Only below Tensight's own cache, where nobody else writes: a run that came from somewhere else must not be able to
point at files of this machine.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tensight.errors import UNDECODABLE, DamagedError
from tensight.files import replacing
from tensight.stats.building import cache_folder

Array = np.ndarray[Any, Any]


class Link(msgspec.Struct, frozen=True, array_like=True):
    """Where a tensor's values are: one stretch of bytes in a file."""

    file: str
    offset: int
    dtype: str  # the tensor's own
    held: str  # as NumPy reads the bytes
    shape: tuple[int, ...]
    fortran: bool = False
    wide: str = ""  # 'bfloat16' and such, where the bytes are its bits


def dumps_folder() -> Path:
    """Where runs that show dumps in place are kept: in the user's cache, or where `TENSIGHT_CACHE` says."""
    return Path(os.environ.get("TENSIGHT_CACHE") or cache_folder()) / "dumps"


def beside(path: Path) -> Path:
    """The list that stands in for a file of kept tensors."""
    return path.with_suffix(".links")


def write(path: Path, links: Mapping[int, Link]) -> int:
    """Write the list that stands for a file of kept tensors; returns its size."""
    data = msgspec.msgpack.encode({str(id): link for id, link in links.items()})
    target = beside(path)
    target.parent.mkdir(exist_ok=True)
    with replacing(target) as new:
        new.write_bytes(data)
    return len(data)


def read(path: Path, tensor: int) -> tuple[Array, str] | None:
    """A tensor's values and own dtype by its link; None when there is no such list or it is not ours."""
    target = beside(path)
    try:
        if not target.resolve().is_relative_to(dumps_folder().resolve()):
            return None
        found = msgspec.msgpack.decode(target.read_bytes(), type=dict[str, Link]).get(str(tensor))
    except FileNotFoundError:
        return None
    except (OSError, *UNDECODABLE) as error:
        raise DamagedError(f"{target} is damaged: {error}") from error
    return None if found is None else (_values(found), found.dtype)


def _values(link: Link) -> Array:
    count = 1
    for length in link.shape:
        count *= length
    try:
        held = np.dtype(link.held)
        plain = held.itemsize and not held.hasobject and not held.names
        if not plain or link.offset < 0 or any(length < 0 for length in link.shape):
            raise ValueError("no values are held like that")
        size = os.stat(link.file).st_size
        if link.offset + count * held.itemsize > size:
            raise DamagedError(f"{link.file!r} is shorter than it was: make the run again")
        array: Array = np.fromfile(link.file, held, count, offset=link.offset)
    except OSError as error:
        raise DamagedError(f"{link.file!r} can no longer be read: {error.strerror or error}") from error
    except (ValueError, TypeError, SyntaxError, OverflowError) as error:  # NumPy parses a dtype as Python does
        raise DamagedError(f"the place of a tensor in {link.file!r} cannot be understood: {error}") from error
    return widened(array.reshape(link.shape, order="F" if link.fortran else "C"), link.wide)


def widened(array: Array, dtype: str) -> Array:
    """Values as NumPy has them: float32 for what is held as the bits of a smaller float.

    >>> widened(np.array([0x3F80], np.uint16), "bfloat16")
    array([1.], dtype=float32)
    """
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    if dtype in ("float8_e4m3fn", "float8_e5m2"):
        return _eight_bits(dtype)[array]
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _eight_bits(dtype: str) -> Array:
    """The 256 values of an 8-bit float."""
    mantissa, bias, infinite = (3, 7, False) if dtype == "float8_e4m3fn" else (2, 15, True)
    table = np.empty(256, np.float32)
    for code in range(256):
        exponent, rest = code >> mantissa & (0x7F >> mantissa), code & ((1 << mantissa) - 1)
        top = 0x7F >> mantissa
        if exponent == top and (infinite or rest == (1 << mantissa) - 1):
            value = math.inf if infinite and not rest else math.nan
        elif exponent:
            value = (1 + rest / (1 << mantissa)) * 2.0 ** (exponent - bias)
        else:
            value = rest / (1 << mantissa) * 2.0 ** (1 - bias)
        table[code] = -value if code & 128 else value
    return table
