"""How long a thread that could have computed waited for a processor: other programs, or too many threads, had it."""

from __future__ import annotations

import contextlib
import os
import weakref

_FILE = "/proc/thread-self/schedstat"  # nanoseconds computed, nanoseconds waited, turns
NS = 1e-9


class Delay:
    """Seconds that the thread which made this has waited for a processor so far; always 0 where that is not told.

    >>> Delay().seconds() >= 0
    True
    """

    def __init__(self, path: str = _FILE) -> None:
        self._file = -1
        with contextlib.suppress(OSError):
            # kept open, so that a look is one system call; it stays the file of this thread
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self._file)
        self.known = self._file >= 0
        self.seconds()

    def seconds(self) -> float:
        if not self.known:
            return 0.0
        try:
            return int(os.pread(self._file, 96, 0).split()[1]) * NS
        except (OSError, IndexError, ValueError):
            self.known = False
            return 0.0
