"""Memory for copies that soon go to disk, used again for the next ones.

Memory that was just given by the system is slow: each page of it is fetched and cleared at the first write. A copy into
memory that was there before takes a quarter of the time.
"""

from __future__ import annotations

import mmap
from collections import defaultdict
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]
LARGE = 1 << 17
"""Bytes from which the system gives memory of its own to a copy and takes it back after."""
MOST_FREE = 128 << 20
"""Bytes that wait to be used again."""


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
        target.copy_(tensor)
        return target.numpy()

    def give_back(self, memory: Array) -> None:
        if self.waiting + memory.nbytes <= self._most:
            self.waiting += memory.nbytes
            self._free[memory.nbytes].append(memory)

    def _lend(self, size: int) -> Array:
        try:
            memory = self._free[size].pop()
        except IndexError:
            return _new(size)
        self.waiting -= size
        return memory


class _Loan:
    """Owns a piece of memory as long as arrays stand in it."""

    def __init__(self, pool: Pool, memory: Array) -> None:
        self._pool = pool
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._pool.give_back(self._memory)


def _new(size: int) -> Array:
    try:
        # private: a copy of the process must not write into it
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (AttributeError, TypeError, OSError):  # other systems have other flags
        return np.empty(size, np.uint8)
    return np.frombuffer(memory, np.uint8)
