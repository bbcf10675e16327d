"""Writes large files past the system's page cache.

A dump is rarely read soon. To keep it in memory costs the training the system's time, and the memory that its own data
could have had.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

LARGE = 1 << 17
"""Bytes from which a file is written so: smaller ones wait longer for the disk than they cost."""
_BUFFER = 4 << 20
_BLOCK = 4096  # what any disk takes
_FLAG = getattr(os, "O_DIRECT", 0)
_UNSUPPORTED = (errno.EINVAL, errno.ENOTSUP)


class Direct:
    """A buffer that lies as disks want it, for one thread."""

    def __init__(self) -> None:
        self._refused = not _FLAG  # by the file system
        self._memory: mmap.mmap | None = None

    def write(self, path: Path, header: bytes, values: np.ndarray[Any, Any]) -> bool:
        """A whole file of `header` and `values` (plain bytes); False when it has to be written as others are."""
        if self._refused or values.nbytes < LARGE:
            return False
        if self._memory is None:
            self._memory = mmap.mmap(-1, _BUFFER)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | _FLAG, 0o666)
            try:
                self._fill(handle, header, values, self._memory)
            finally:
                os.close(handle)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            self._refused = True
            return False
        return True

    @staticmethod
    def _fill(handle: int, header: bytes, values: np.ndarray[Any, Any], memory: mmap.mmap) -> None:
        buffer = np.frombuffer(memory, np.uint8)
        buffer[: len(header)] = np.frombuffer(header, np.uint8)
        at, done = len(header), 0
        while done < values.nbytes:
            piece = values[done : done + _BUFFER - at]
            buffer[at : at + len(piece)] = piece
            done += len(piece)
            filled, at = at + len(piece), 0
            whole = filled // _BLOCK * _BLOCK
            _write(handle, memoryview(memory)[:whole])
            if whole < filled:
                # less than a block, at the end: to fill it up and cut the file off costs more
                fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) & ~_FLAG)
                _write(handle, memoryview(memory)[whole:filled])


def _write(handle: int, left: memoryview) -> None:
    size = len(left)
    while left:
        written = os.write(handle, left)
        left = left[written:]
        if left and (size - len(left)) % _BLOCK:
            raise OSError(errno.ENOSPC, "the disk is full")  # nothing else ends a write inside of a block
