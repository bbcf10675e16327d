"""Memory for copies that soon go to disk, used again for the next ones.

Memory that was just given by the system is slow: each page of it is fetched and cleared at the first write. A copy into
memory that was there before takes a quarter of the time.
"""

from __future__ import annotations

import contextlib
import mmap
from collections import defaultdict
from typing import Any

import numpy as np
import torch

from tensight.frameworks.torch.statistics import copy_values

Array = np.ndarray[Any, Any]
LARGE = 1 << 17
"""Bytes from which the system gives memory of its own to a copy and takes it back after."""
HUGE = 1 << 21
MOST_FREE = 512 << 20
"""Bytes that wait to be used again: what the outputs of a step may take, so that the next step finds them."""


class Pool:
    """Lends memory, and has it back when no array stands in it any more, in whichever thread that is.

    >>> Pool().copy(torch.ones(2, 3)).shape
    (2, 3)
    """

    def __init__(self, most: int = MOST_FREE) -> None:
        self._most = most
        self._free: defaultdict[int, list[Array]] = defaultdict(list)
        self.waiting = 0  # bytes; two threads at once may count wrongly by one piece, which nobody minds

    def copy(self, tensor: torch.Tensor) -> Array:
        """A contiguous copy of a tensor of the main memory, of a dtype that NumPy knows."""
        if tensor.nbytes < LARGE or tensor.is_complex():
            return tensor.clone(memory_format=torch.contiguous_format).numpy()
        array = np.asarray(_Loan(self, self._lend(tensor.nbytes)))
        target = torch.from_numpy(array).view(tensor.dtype).view(tensor.shape)
        if type(tensor) is torch.Tensor and tensor.is_contiguous() and not tensor.is_neg():
            copy_values([target], [tensor])  # past the caches, in which the training's own values stay
        else:
            target.copy_(tensor)
        return target.numpy()

    def give_back(self, memory: Array) -> None:
        if self.waiting + memory.nbytes <= self._most:
            self.waiting += memory.nbytes
            self._free[memory.nbytes].append(memory)

    def release(self) -> None:
        """Nothing is copied for now: what waits goes back to the system."""
        if self.waiting:
            self._free.clear()
            self.waiting = 0

    def _lend(self, size: int) -> Array:
        try:
            memory = self._free[size].pop()
        except IndexError:
            return memory_of(size)
        self.waiting -= size
        return memory


def beside_heap(tensor: torch.Tensor) -> torch.Tensor:
    """A copy that is to be kept for long, a large one beside the heap.

    >>> beside_heap(torch.ones(300, 200).T).stride()
    (1, 200)
    """
    if type(tensor) is not torch.Tensor or tensor.layout is not torch.strided or not tensor.is_cpu:
        return tensor.clone()
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    if tensor.nbytes < LARGE or span != tensor.numel():
        return tensor.clone()
    room = torch.from_numpy(memory_of(tensor.nbytes)).view(tensor.dtype)
    return room.as_strided(tensor.shape, tensor.stride()).copy_(tensor)


class _Loan:
    """Owns a piece of memory as long as arrays stand in it."""

    def __init__(self, pool: Pool, memory: Array) -> None:
        self._pool = pool
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._pool.give_back(self._memory)


def memory_of(size: int) -> Array:
    """Memory beside the heap: what lives long between what comes and goes keeps a heap from being used again."""
    try:
        # private: a copy of the process must not write into it
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (AttributeError, TypeError, OSError):  # other systems have other flags
        return np.empty(size, np.uint8)
    if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)  # a disk is told of few large pieces instead of many pages
    return np.frombuffer(memory, np.uint8)
