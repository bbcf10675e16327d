"""NumPy numbers and arrays inside a pickle, made of their bytes alone; nothing the file names is looked up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

_PLACES = ("numpy.core.multiarray", "numpy._core.multiarray")
SCALARS = frozenset(f"{place}.scalar" for place in _PLACES)
ARRAYS = frozenset(f"{place}._reconstruct" for place in _PLACES)
NAMES = frozenset((*SCALARS, *ARRAYS, "numpy.dtype", "_codecs.encode"))
_KINDS = "biufc"  # plain numbers: no objects, no text, no records
Array = np.ndarray[Any, Any]


class Unfinished(ABC):
    """A dtype or an array whose second half the pickle gives later."""

    @abstractmethod
    def fill(self, state: Any) -> None:
        """Take in that half."""


class Dtype(Unfinished):
    """A dtype by its short name ('f8'); the byte order comes later."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.order = "="

    def fill(self, state: Any) -> None:
        if isinstance(state, (tuple, list)) and len(state) > 1 and state[1] in ("<", ">", "|", "="):
            self.order = str(state[1])

    @property
    def real(self) -> np.dtype[Any]:
        found = np.dtype(self.code)
        if found.kind not in _KINDS or found.itemsize > 32:
            raise ValueError(f"a NumPy value of the type {self.code[:20]!r} is not read here")
        return found.newbyteorder(">") if self.order == ">" else found


class Held(Unfinished):
    """An array; `array` is None until its bytes have come."""

    def __init__(self) -> None:
        self.array: Array | None = None

    def fill(self, state: Any) -> None:
        shape, dtype, fortran, data = tuple(state)[-4:]
        if not isinstance(dtype, Dtype):
            raise ValueError("a NumPy array is not described as NumPy does it")
        self.array = made(dtype, tuple(shape), data, fortran=fortran is True)


def made(dtype: Dtype, shape: Sequence[Any], data: Any, *, fortran: bool = False) -> Array:
    """An array of exactly these bytes."""
    if isinstance(data, str):
        data = data.encode("latin1")
    count = 1
    for length in shape:
        if not isinstance(length, int) or isinstance(length, bool) or length < 0:
            raise ValueError("a NumPy array has a shape that is none")
        count *= length
    if not isinstance(data, (bytes, bytearray)) or len(data) != count * dtype.real.itemsize:
        raise ValueError("a NumPy array has not as many bytes as its shape says")
    found = np.frombuffer(bytes(data), dtype.real, count).reshape(tuple(shape), order="F" if fortran else "C")
    return found.astype(found.dtype.newbyteorder("="))


def rebuilt(name: str, arguments: tuple[Any, ...]) -> Any:
    """What a pickle asks NumPy for: a number becomes a plain one, an array a `Held`."""
    if name == "_codecs.encode":
        text, encoding = arguments
        if not isinstance(text, str) or encoding != "latin1":
            raise ValueError("bytes are not described as Python does it")
        return text.encode("latin1")
    if name == "numpy.dtype":
        if not isinstance(arguments[0], str):
            raise ValueError("a NumPy type has no name")
        return Dtype(arguments[0])
    if name in ARRAYS:
        return Held()
    dtype, data = arguments
    if not isinstance(dtype, Dtype):
        raise ValueError("a NumPy number is not described as NumPy does it")
    return made(dtype, (), data).item()
