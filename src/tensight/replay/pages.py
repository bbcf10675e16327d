"""What it costs to write to memory that a copy of the process shares: the system copies each page the first time.

And how to leave memory out of a copy that will not read it, so that the training does not pay for its pages.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import resource
import time
from collections.abc import Callable, Iterable, Iterator

_SAMPLE = 64
_FEWEST = 16  # pages that are worth a call to the system
_MOST_PIECES = 4096  # a process may have 65,530 pieces of memory in all
_WIPE, _KEEP = 18, 19  # MADV_WIPEONFORK, MADV_KEEPONFORK, which Python has no names for


class Sample:
    """A few pages that are written before a fork and again behind it: what one costs differs tenfold between machines.

    >>> with Sample() as sample:
    ...     sample.price() >= 0
    True
    """

    def __init__(self) -> None:
        self._pages = mmap.mmap(-1, _SAMPLE * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            self._pages.madvise(mmap.MADV_NOHUGEPAGE)
        self._write()

    def __enter__(self) -> Sample:
        return self

    def __exit__(self, *error: object) -> None:
        self._pages.close()

    def price(self) -> float:
        """Seconds per page, from writing them now."""
        begun = time.perf_counter()
        self._write()
        return (time.perf_counter() - begun) / _SAMPLE

    def _write(self) -> None:
        for place in range(0, len(self._pages), mmap.PAGESIZE):
            self._pages[place] = 1


def private() -> int:
    """Pages of this process that a copy would share and either may write; 0 where nobody counts them."""
    try:
        with open(f"/proc/{os.getpid()}/statm") as line:
            sizes = line.read().split()
        return int(sizes[1]) - int(sizes[2])
    except (OSError, IndexError, ValueError):
        return 0


def written() -> int:
    """How often this process has written to a page for the first time, new ones and copied ones together."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


@contextlib.contextmanager
def left_out(pieces: Iterable[tuple[int, int]]) -> Iterator[None]:
    """Copies of the process that are made meanwhile have zeros in these pieces of memory: (address, bytes).

    Only for what a copy writes before it reads. What the system cannot leave out (shared memory, files) is copied as
    ever; so are the ends of a piece, whose pages hold something else too.
    """
    advise = _advise()
    page = mmap.PAGESIZE
    wiped: list[tuple[int, int]] = []
    try:
        if advise is not None:
            for address, size in sorted(pieces, key=lambda piece: -piece[1])[:_MOST_PIECES]:
                start = -(-address // page) * page
                whole = (address + size) // page * page - start
                if whole >= _FEWEST * page and not advise(start, whole, _WIPE):
                    wiped.append((start, whole))
        yield
    finally:
        if advise is not None:
            for start, whole in wiped:
                advise(start, whole, _KEEP)


def _advise() -> Callable[[int, int, int], int] | None:
    try:
        advise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return advise
