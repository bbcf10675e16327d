"""A stranger's file, taken apart by a child with little memory and time before we do it.

The parsers check what a file claims before they believe it. Should one be fooled all the same, it is the child that
fills its memory, hangs or dies, and the file is refused in one sentence.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, NoReturn

from tensight.errors import CheckpointError, TensightError
from tensight.workers import child

MEMORY = 1 << 30  # bytes beyond what the child begins with, and four times the size of the file
SECONDS = 60.0  # and one more for each ten megabytes
_LONGEST = 1 << 16  # bytes of a sentence

Read = Callable[[Path], object]


def try_reading(read: Read, path: Path, *, memory: int = MEMORY, seconds: float = SECONDS) -> None:
    """Have a child read a file; what it says of it, or comes to, is a CheckpointError here.

    `read` is a function of a module.
    """
    with contextlib.suppress(OSError):
        size = path.stat().st_size
        memory, seconds = memory + 4 * size, seconds + size / 1e7
    if not hasattr(os, "fork"):
        return
    if threading.active_count() == 1:
        pid, pipe = child.forked(lambda writing: _work(read, path, memory, seconds, writing))
    else:
        pid, _, pipe = child.spawned(__name__, child.name_of(read), str(path), str(memory), str(seconds))
    said = bytearray()
    with pipe:
        _, code = child.ended(pid, lambda: _listen(pipe, seconds, said))
    if code == child.REFUSED:
        raise CheckpointError(said.decode(errors="replace") or f"{path} is refused")
    if code == child.MEMORY_FULL:
        raise CheckpointError(f"{path} is refused: reading it takes more memory than a file of its size needs")
    if code in (-signal.SIGKILL, -signal.SIGXCPU):
        raise CheckpointError(f"{path} is refused: reading it takes more than {seconds:.0f} seconds")
    if code:
        raise CheckpointError(f"{path} is refused: it breaks what reads it")


def limit_own_memory() -> None:
    """Half of the machine's memory for a process that only reads: the other half is for a training beside it."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        child.limit("RLIMIT_DATA", max(whole // 2, 2 * MEMORY))


def _listen(pipe: IO[bytes], seconds: float, said: bytearray) -> bool:
    """Take what a child says until it ends; False when its time is over."""
    deadline = time.monotonic() + seconds
    while True:
        piece = child.heard(pipe, deadline - time.monotonic(), _LONGEST)
        if not piece:
            return piece is not None
        said += piece[: _LONGEST - len(said)]


def _work(read: Read, path: Path, memory: int, seconds: float, writing: int) -> NoReturn:
    """The child: limits first, then the file."""

    def work() -> int:
        child.limit("RLIMIT_DATA", child.data_in_use() + memory)
        child.limit("RLIMIT_CPU", int(seconds) + 1)
        try:
            read(path)
        except TensightError as error:
            os.write(writing, str(error).encode()[:_LONGEST])
            return child.REFUSED
        return 0

    child.leave_after(work)


def main(words: list[str]) -> NoReturn:
    """`python -m tensight.workers.limited MODULE:FUNCTION FILE MEMORY SECONDS`"""
    _work(child.by_name(words[0]), Path(words[1]), int(words[2]), float(words[3]), sys.stdout.fileno())


if __name__ == "__main__":
    main(sys.argv[1:])
