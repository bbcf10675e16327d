"""The batches since the last snapshot, in memory of our own.

What a loader's worker hands over lies in shared memory behind an open file: holding on to such batches would use up the
files a process may have open. And a loop may change its batch in place. So each is copied; the memory is used again
after the next snapshot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

MOST = 512  # batches since a snapshot; with more, running them all again takes too long
MOST_BYTES = 512 << 20

_Key = tuple[torch.Size, tuple[int, ...], torch.dtype]


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
        self._kept: deque[tuple[Any, Any]] = deque()
        self._used: list[torch.Tensor] = []
        self._free: dict[_Key, list[torch.Tensor]] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._kept)

    def append(self, batch: Any, samples: Any) -> bool:
        """Keep a copy; whether there was room for it."""
        if len(self._kept) >= self._most or self.bytes > self._most_bytes:
            return False
        with torch.no_grad():
            self._kept.append((tree_map(self._copied, batch), samples))
        return True

    def clear(self) -> None:
        """Forget them all. Their memory serves the next ones, unless those have other shapes."""
        free: dict[_Key, list[torch.Tensor]] = {}
        for room in self._used:
            free.setdefault(_key(room), []).append(room)
        self._free = free
        self._used = []
        self._kept.clear()
        self.bytes = 0

    def _copied(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            self.bytes += value.nbytes
            return value.copy()
        if type(value) is not torch.Tensor or value.layout is not torch.strided or not value.is_cpu:
            return value.detach().clone() if isinstance(value, torch.Tensor) else value
        value = value.detach()
        rooms = self._free.get(_key(value))
        room = rooms.pop() if rooms else torch.empty_strided(tuple(value.shape), value.stride(), dtype=value.dtype)
        room.copy_(value)
        self._used.append(room)
        self.bytes += room.numel() * room.element_size()
        return room


def _key(tensor: torch.Tensor) -> _Key:
    return tensor.shape, tensor.stride(), tensor.dtype
