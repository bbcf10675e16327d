"""How a value is printed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensight.frameworks.source import source_of
from tensight.kit.backend import imported
from tensight.records.print import Print, PrintedValue
from tensight.session.settings import rank

LARGE = 1000  # values; larger tensors are cut in the middle
_NAMES = {
    "bool": "Bool",
    "bfloat16": "BFloat16",
    "uint8": "UInt8",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
}


def printed(value: Any) -> PrintedValue:
    """A value as it is printed.

    >>> printed(np.float32([1, 2])).text
    'Tensor(shape=[2], dtype=Float32, value=\\n[1. 2.])'
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return _tensor(np.asarray(value), np.asarray(value).dtype.name)
    for backend in imported():
        if backend.is_tensor(value):
            return _tensor(backend.array(value), backend.dtype(value))
    return PrintedValue(str(value))


def form(values: Sequence[PrintedValue], step: int, place: tuple[str, int], where: str) -> Print:
    """The record of a call."""
    return Print(step, time.time(), tuple(values), source_of(*place), rank(), where)


def _tensor(array: np.ndarray[Any, Any], dtype: str) -> PrintedValue:
    shape = [int(length) for length in array.shape]
    shown = np.array2string(array, threshold=LARGE)
    between = "\n" if shape else " "
    name = _NAMES.get(dtype, dtype.capitalize())
    low = high = mean = None
    nan = inf = 0
    if array.size and array.dtype.kind in "biuf":
        wide = array.astype(np.float64)
        nan, inf = int(np.isnan(wide).sum()), int(np.isinf(wide).sum())
        good = wide[np.isfinite(wide)]
        if good.size:
            low, high, mean = float(good.min()), float(good.max()), float(good.mean())
    summary = ""
    if array.size > LARGE:
        summary = (
            f", min={low:g}, max={high:g}, mean={mean:g}, nan={nan}, inf={inf}" if low is not None else f", nan={nan}"
        )
    text = f"Tensor(shape={shape}, dtype={name}, value={between}{shown}{summary})"
    return PrintedValue(text, tuple(shape), dtype, low, high, mean, nan, inf)
