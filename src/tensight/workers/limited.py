"""A child with little memory and time that takes a stranger's file apart before we do.

The parsers check what a file claims before they believe it. Should one be fooled all the same, it is the child that
fills its memory, hangs or dies, and the file is refused in one sentence.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import mmap
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, NoReturn

from tensight.errors import CheckpointError, TensightError

MEMORY = 1 << 30  # bytes beyond what the child begins with, and four times the size of the file
SECONDS = 60.0  # and one more for each ten megabytes
_REFUSED, MEMORY_FULL, BROKEN = 3, 4, 5
_LONGEST = 1 << 16  # bytes of a sentence

Read = Callable[[Path], object]


def try_reading(read: Read, path: Path, *, memory: int = MEMORY, seconds: float = SECONDS) -> None:
    """Have a child read a file; what it says of it, or comes to, is a CheckpointError here.

    `read` is a function of a module. Where this process has several threads the child is a fresh interpreter: a copy
    could hold a lock for ever.
    """
    with contextlib.suppress(OSError):
        size = path.stat().st_size
        memory, seconds = memory + 4 * size, seconds + size / 1e7
    if not hasattr(os, "fork"):
        return
    start = _forked if threading.active_count() == 1 else _spawned
    child, pipe = start(read, path, memory, seconds)
    said = bytearray()
    with pipe:
        _, code = ended(child, lambda: _listen(pipe, seconds, said))
    if code == _REFUSED:
        raise CheckpointError(said.decode(errors="replace") or f"{path} is refused")
    if code == MEMORY_FULL:
        raise CheckpointError(f"{path} is refused: reading it takes more memory than a file of its size needs")
    if code in (-signal.SIGKILL, -signal.SIGXCPU):
        raise CheckpointError(f"{path} is refused: reading it takes more than {seconds:.0f} seconds")
    if code:
        raise CheckpointError(f"{path} is refused: it breaks what reads it")


def limit_own_memory() -> None:
    """Half of the machine's memory for a process that only reads: the other half is for a training beside it."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        limit("RLIMIT_DATA", max(whole // 2, 2 * MEMORY))


def ended(child: int, listen: Callable[[], bool]) -> tuple[bool, int]:
    """Whether a child ended in time, and how: it is killed when `listen` says that its time is over, or breaks."""
    in_time = False
    try:
        in_time = listen()
    finally:  # Ctrl-C too: nobody waits for it any more
        if not in_time:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    return in_time, os.waitstatus_to_exitcode(status)


def _listen(pipe: IO[bytes], seconds: float, said: bytearray) -> bool:
    """Take what a child says until it ends; False when its time is over."""
    deadline = time.monotonic() + seconds
    while True:
        ready, _, _ = select.select((pipe,), (), (), max(0.0, deadline - time.monotonic()))
        piece = os.read(pipe.fileno(), _LONGEST) if ready else b""
        if not piece:
            return bool(ready)
        said += piece[: _LONGEST - len(said)]


def _forked(read: Read, path: Path, memory: int, seconds: float) -> tuple[int, IO[bytes]]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work(read, path, memory, seconds, writing)
    os.close(writing)
    return child, os.fdopen(reading, "rb", buffering=0)


def _spawned(read: Read, path: Path, memory: int, seconds: float) -> tuple[int, IO[bytes]]:
    words = (f"{read.__module__}:{read.__qualname__}", str(path), str(memory), str(seconds))
    child, _, pipe = spawned(__name__, *words)
    return child, pipe


def spawned(
    module: str, *words: str, stdin: int = subprocess.DEVNULL, keep: tuple[int, ...] = ()
) -> tuple[int, IO[bytes] | None, IO[bytes]]:
    """A fresh interpreter that runs a module; its id, what it reads where that is a pipe, and what it says."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *words],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=keep,
        env={**os.environ, "TENSIGHT": "off", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout is not None
    process.returncode = 0  # whoever asks for it waits for it, not what is left of this object
    return process.pid, process.stdin, process.stdout


def _work(read: Read, path: Path, memory: int, seconds: float, writing: int) -> NoReturn:
    """The child: limits first, then the file; nothing of its parent's is run when it leaves."""
    code = BROKEN
    faulthandler.disable()  # what a child dies of is said in a sentence, and need not fill the screen
    try:
        limit("RLIMIT_DATA", data_in_use() + memory)
        limit("RLIMIT_CPU", int(seconds) + 1)
        limit("RLIMIT_CORE", 0)
        read(path)
        code = 0
    except TensightError as error:
        code = _REFUSED
        os.write(writing, str(error).encode()[:_LONGEST])
    except MemoryError:
        code = MEMORY_FULL
    except BaseException:
        pass
    finally:
        os._exit(code)


def limit(what: str, value: int) -> None:
    """Set a limit of this process, below the one that cannot be raised."""
    # a system that knows no such limits, not this one, or has a lower one
    with contextlib.suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        number = getattr(resource, what)
        _, hard = resource.getrlimit(number)
        resource.setrlimit(number, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def allowed(what: str) -> int:
    """The limit that holds now; a very large number where there is none."""
    with contextlib.suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        soft, _ = resource.getrlimit(getattr(resource, what))
        return (1 << 62) if soft == resource.RLIM_INFINITY else int(soft)
    return 1 << 62


def data_in_use() -> int:
    """Bytes that count as this process's data now."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[5]) * mmap.PAGESIZE
    return 1 << 30


def main(words: list[str]) -> NoReturn:
    """`python -m tensight.workers.limited MODULE:FUNCTION FILE MEMORY SECONDS`"""
    module, _, name = words[0].partition(":")
    read: Read = getattr(importlib.import_module(module), name)
    _work(read, Path(words[1]), int(words[2]), float(words[3]), sys.stdout.fileno())


if __name__ == "__main__":
    main(sys.argv[1:])
