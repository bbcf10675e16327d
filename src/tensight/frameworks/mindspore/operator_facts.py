"""What can be said of an operator's inputs: in words for people, as numbers for the reasons."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensight.frameworks.adapter import Array
from tensight.frameworks.facts import Fact
from tensight.frameworks.mindspore.values import Unjudged, view, widened


def array_of(tensor: Any) -> Array | None:
    """The tensor's values; None where they cannot be had."""
    try:
        return widened(view(tensor))
    except Unjudged:
        return None


def finite(array: Array | None) -> bool:
    """
    >>> finite(np.array([1.0, np.inf])), finite(np.array([1, 2])), finite(None)
    (False, True, True)
    """
    return array is None or array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def has_nan(array: Array | None) -> bool:
    return array is not None and array.dtype.kind in "fc" and bool(np.isnan(array).any())


def bad_facts(array: Array) -> dict[str, Fact]:
    """How much of an array is bad, and in which rows.

    >>> bad_facts(np.array([[1.0, np.nan], [1.0, 2.0]]))["bad_row_list"]
    '0'
    """
    mask = ~np.isfinite(array)
    rows = mask.reshape(mask.shape[0], -1).any(axis=1) if mask.ndim else mask.reshape(1)
    return {
        "bad": int(mask.sum()),
        "bad_nan": int(np.isnan(array).sum()),
        "bad_neg_inf": int(np.isneginf(array).sum()),
        "bad_of": int(array.size),
        "bad_rows": int(rows.sum()),
        "bad_rows_of": int(rows.size),
        "bad_row_list": ",".join(str(index) for index in np.flatnonzero(rows)[:8]),
    }


def numbers(array: Array, dtype: str) -> dict[str, Fact]:
    """Counts and range of one input."""
    found: dict[str, Fact] = {"shape": "x".join(map(str, array.shape)), "dtype": dtype, "count": int(array.size)}
    if not array.size or array.dtype.kind == "c":
        return found
    if array.dtype.kind == "b":
        found["true"] = int(array.sum())
        return found
    found["zero"] = int((array == 0).sum())
    found["negative"] = int((array < 0).sum())
    values = array
    if array.dtype.kind == "f":
        found["nan"] = int(np.isnan(array).sum())
        found["pos_inf"] = int(np.isposinf(array).sum())
        found["neg_inf"] = int(np.isneginf(array).sum())
        values = array[np.isfinite(array)]
    if values.size:
        found["min"] = values.min().item()
        found["max"] = values.max().item()
    return found


def masked_rows(array: Array, axis: int) -> int:
    """How many rows along an axis hold nothing but -inf.

    >>> masked_rows(np.array([[-np.inf, -np.inf], [0.0, -np.inf]]), -1)
    1
    """
    return int(np.isneginf(array).all(axis=axis).sum()) if array.ndim and array.dtype.kind == "f" else 0


def infinite_argument(value: Any) -> bool:
    """Whether an argument is itself a number that is not finite: then the user asked for it."""
    return isinstance(value, float) and not math.isfinite(value)
