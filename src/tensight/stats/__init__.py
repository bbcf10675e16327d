"""Statistics of tensors: their truth in NumPy, and the kernel that takes them in one pass over memory.

`reference.statistics(array, needs, before)` is the definition: plain NumPy in float64, for every dtype.

`native` is the compiled kernel, for memory given by its address (torch, MindSpore, NumPy alike):

    from tensight.stats import native
    if native.available():                 # loads it, or compiles it once; False with TENSIGHT_NATIVE=off
        stats = native.contiguous(tensor.data_ptr(), "float32", tensor.numel())          # quick, a few µs
        stats = native.one(tensor.data_ptr(), "bfloat16", tensor.shape, tensor.stride(), needs, before_pointer)
        several = native.many([(pointer, dtype, layout, before_pointer_or_0), …], needs)
    else:
        print(native.describe())           # why not

`native.DTYPES` maps names ('float32', 'bfloat16', 'float8_e4m3fn', 'bool', …) to codes; either is accepted. A layout in
`many` is a count (contiguous) or `(shape, strides)` or `(shape, strides, strides of the earlier copy)`. Strides count
elements. The earlier copy has the same dtype and shape; given one, `Stats.change` is filled, with the tolerances of
`needs`. Errors in arguments raise `UsageError`.

`statistics(array, needs, before)` takes a NumPy array and uses the kernel where it can, else the reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensight.records import Needs, Stats
from tensight.stats import native, reference
from tensight.stats.reference import NO_NEEDS

Array = np.ndarray[Any, Any]


def statistics(array: Array, needs: Needs = NO_NEEDS, before: Array | None = None) -> Stats:
    """Statistics of a NumPy array by the quickest way there is. Same meaning as `reference.statistics`.

    >>> statistics(np.array([1.0, 2.0, 4.0])).max
    4.0
    """
    if not _readable(array) or (before is not None and not _matches(before, array)) or not native.available():
        return reference.statistics(array, needs, before)
    size = array.dtype.itemsize
    strides = [step // size for step in array.strides]
    if before is None:
        return native.one(array.ctypes.data, array.dtype.name, array.shape, strides, needs)
    steps = [step // size for step in before.strides]
    return native.one(array.ctypes.data, array.dtype.name, array.shape, strides, needs, before.ctypes.data, steps)


def _readable(array: Array) -> bool:
    size = array.dtype.itemsize
    return (
        array.dtype.name in native.DTYPES
        and array.dtype.isnative
        and array.flags.aligned
        and all(step % size == 0 for step in array.strides)
    )


def _matches(before: Array, array: Array) -> bool:
    return before.dtype == array.dtype and before.shape == array.shape and _readable(before)


__all__ = ["native", "reference", "statistics"]
