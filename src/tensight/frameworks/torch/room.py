"""Memory for copies of weights, apart from the training's own.

Copies that change from step to step would be cut out of the heap where the training's activations were a moment ago,
and stay there when these come again: the heap would grow by far more than the copies take.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Sequence

import torch

_ALIGNED = 64
_WIPE_ON_FORK = 18  # for Linux: a copy of the process makes copies of its own before it reads any


class Room:
    """One piece of memory, handed out anew each time, and taken again at the next.

    >>> room = Room()
    >>> [tuple(copy.shape) for copy in room.hand_out([torch.ones(2, 3), torch.ones(4)])]
    [(2, 3), (4,)]
    """

    def __init__(self) -> None:
        self._memory: torch.Tensor | None = None

    def hand_out(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Where copies of these go: laid out as they are, with any values."""
        sizes = [_extent(tensor) for tensor in tensors]
        whole = sum(sizes)
        if whole and (self._memory is None or self._memory.numel() < whole):
            self._memory = None  # before the next one is made
            self._memory = _memory(whole)
        found, start = [], 0
        for tensor, size in zip(tensors, sizes):
            if self._memory is None or not size:
                found.append(_like(tensor))
                continue
            flat = self._memory[start : start + size].view(tensor.dtype)
            found.append(flat.as_strided(tuple(tensor.shape), tensor.stride()))
            start += size
        return found


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from its first value to its last, so that the next one begins aligned; 0 when it is not in main memory."""
    if tensor.device.type != "cpu" or not tensor.numel():
        return 0
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride()))
    return -(-(last + 1) * tensor.element_size() // _ALIGNED) * _ALIGNED


def _memory(size: int) -> torch.Tensor:
    try:
        # private: a copy of the process must not write into it
        piece = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (AttributeError, TypeError, OSError):  # other systems have other flags
        return torch.empty(size, dtype=torch.uint8)
    with contextlib.suppress(AttributeError, OSError):
        piece.madvise(_WIPE_ON_FORK)
        piece.madvise(mmap.MADV_HUGEPAGE)  # each step writes and reads all of it: fewer pages are fewer misses
    return torch.frombuffer(piece, dtype=torch.uint8)


def _like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
