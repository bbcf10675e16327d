"""What it costs to write to memory that a copy of the process shares: the system copies each page the first time."""

from __future__ import annotations

import mmap
import os
import resource
import time

_SAMPLE = 64


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
