"""The batches since the last snapshot, in memory of our own.

What a loader's worker hands over lies in shared memory behind an open file: holding on to such batches would use up the
files a process may have open. And a loop may change its batch in place. So each is copied, into memory beside the heap,
which is used again after the next snapshot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._pytree import tree_map

from tensight.frameworks.torch.lending import memory_of

MOST = 512  # batches since a snapshot; with more, running them all again takes too long
MOST_BYTES = 512 << 20

_PIECE = 4 << 20
_ALIGNED = 64


class Held(NamedTuple):
    """Where a copy lies, and what it is.

    No tensor: each has memory of the heap, and hundreds, one made in each step, would stand between what a step takes
    and gives back, so that the heap of the training grows.
    """

    piece: int
    begin: int
    size: int  # bytes
    dtype: Any
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None  # None for an array of NumPy


class KeptBatches:
    """Copies of batches, oldest first, with what is known of their samples.

    >>> kept = KeptBatches()
    >>> batch = {"x": torch.ones(2)}
    >>> kept.append(batch, None)
    True
    >>> batch["x"].zero_()
    tensor([0., 0.])
    >>> [(kept_batch["x"].tolist(), samples) for kept_batch, samples in kept]
    [([1.0, 1.0], None)]
    """

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._kept: deque[tuple[Any, Held | None]] = deque()
        self._pieces: list[np.ndarray[Any, Any]] = []
        self._piece = self._place = 0  # where the next copy goes
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[tuple[Any, list[int] | None]]:
        for batch, numbers in self._kept:
            made = tree_map(self._made, batch, is_leaf=_is_held)
            yield made, None if numbers is None else self._made(numbers).tolist()

    def append(self, batch: Any, samples: list[int] | None) -> bool:
        """Keep a copy; whether there was room for it."""
        if len(self._kept) >= self._most or self.bytes > self._most_bytes:
            return False
        with torch.no_grad():
            # a list of many numbers is memory of the heap
            numbers = None if samples is None else self._copied(np.array(samples, np.int64))
            self._kept.append((tree_map(self._copied, batch), numbers))
        return True

    def clear(self) -> None:
        """Forget them all. Their memory serves the next ones."""
        self._pieces = self._pieces[: self._piece + 1]  # a longer time than the last one is not provided for
        self._piece = self._place = 0
        self._kept.clear()
        self.bytes = 0

    def _room(self, size: int) -> tuple[int, int]:
        """The piece and the place in it that the next copy goes to."""
        while self._piece < len(self._pieces) and self._place + size > len(self._pieces[self._piece]):
            self._piece, self._place = self._piece + 1, 0
        if self._piece == len(self._pieces):
            self._pieces.append(memory_of(max(size, _PIECE)))
        begin = self._place
        self._place += -(-size // _ALIGNED) * _ALIGNED
        self.bytes += size
        return self._piece, begin

    def _copied(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            if type(value) is not np.ndarray or value.dtype.hasobject or not value.size:
                self.bytes += value.nbytes
                return value.copy()
            held = Held(*self._room(value.nbytes), value.nbytes, value.dtype, value.shape, None)
            self._made(held)[...] = value
            return held
        if type(value) is not torch.Tensor or value.layout is not torch.strided or not value.is_cpu:
            return value.detach().clone() if isinstance(value, torch.Tensor) else value
        value = value.detach()
        if not value.numel():
            return value.clone()
        span = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride()))
        size = span * value.element_size()
        held = Held(*self._room(size), size, value.dtype, tuple(value.shape), value.stride())
        # all of the memory between: of an expanded tensor several values stand in one place
        self._memory(held).view(value.dtype).copy_(value.as_strided((span,), (1,)))
        return held

    def _memory(self, held: Held) -> torch.Tensor:
        return torch.from_numpy(self._pieces[held.piece][held.begin : held.begin + held.size])

    def _made(self, held: Any) -> Any:
        """The copy itself, in its place; what was not copied as it is."""
        if not isinstance(held, Held):
            return held
        if held.stride is None:
            return self._pieces[held.piece][held.begin : held.begin + held.size].view(held.dtype).reshape(held.shape)
        return self._memory(held).view(held.dtype).as_strided(held.shape, held.stride)


def _is_held(value: Any) -> bool:
    return isinstance(value, Held)
