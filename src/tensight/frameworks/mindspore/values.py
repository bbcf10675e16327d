"""Tensors of MindSpore as numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from mindspore import Tensor

from tensight.frameworks.adapter import Array
from tensight.frameworks.memory import OUT_OF_MEMORY, is_lack_of_memory
from tensight.records import Needs, Stats
from tensight.stats import native, reference

_PLAIN = "biufc"  # kinds of NumPy dtypes that need no help


class Unjudged(Exception):
    """A tensor that cannot be looked at; the message is an ErrorCode."""


def view(tensor: Any) -> Array:
    """The tensor's own memory as NumPy where it has any; only strided views are copied."""
    if isinstance(tensor, np.ndarray):
        return tensor
    if not isinstance(tensor, Tensor):
        raise Unjudged("no_value")
    try:
        return tensor.asnumpy()
    except (RuntimeError, TypeError, ValueError, MemoryError) as error:
        raise Unjudged(OUT_OF_MEMORY if is_lack_of_memory(error) else "dtype") from error


def widened(array: Array) -> Array:
    """Dtypes NumPy does not have, as float32, which holds them exactly."""
    if array.dtype.kind in _PLAIN:
        return array
    if array.dtype.name == "bfloat16":
        bits = np.ascontiguousarray(array).view(np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).reshape(array.shape)
    return array.astype(np.float32)


def copied(tensor: Any) -> Array:
    """A copy that stays as it is when the tensor changes."""
    array = view(tensor)
    wide = widened(array)
    return wide.copy() if wide is array else wide


def measured(array: Array, needs: Needs, before: Array | None = None) -> Stats:
    """One pass over an array; by the native kernel where there is one."""
    name = array.dtype.name
    if native.available() and name in native.DTYPES and array.flags.c_contiguous:
        if before is None:
            return native.contiguous(array.ctypes.data, name, array.size, needs)
        if before.dtype == array.dtype and before.shape == array.shape and before.flags.c_contiguous:
            return native.contiguous(array.ctypes.data, name, array.size, needs, before.ctypes.data)
    return reference.statistics(widened(array), needs, None if before is None else widened(before))


def tensors(value: Any, slot: str, depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    """Each tensor in a result with its place: 'output.0', 'output.1.mask'.

    A single tensor is at place 0, as in a tuple of one.
    """
    if isinstance(value, Tensor):
        yield (slot if depth else f"{slot}.0"), value
        return
    if depth > 8:
        return
    if isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from tensors(item, f"{slot}.{index}", depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensors(item, f"{slot}.{key}", depth + 1)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from tensors(getattr(value, field.name, None), f"{slot}.{field.name}", depth + 1)


def dtype_name(tensor: Tensor | Array) -> str:
    """'float32', as every framework says it."""
    return str(tensor.dtype).lower()


def number(value: Any) -> float | None:
    """A tensor of one element as a float, anything else as None."""
    if isinstance(value, Tensor):
        return float(widened(view(value)).reshape(-1)[0]) if value.size == 1 else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
