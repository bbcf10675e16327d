"""A child with little memory and time, for what a stranger's file may do to whoever reads it.

It is a copy of this process, or a fresh interpreter where this one has several threads: a copy could hold a lock for
ever. Nothing of its parent's is run when it leaves; how it has ended is its exit status.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import math
import mmap
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NoReturn

REFUSED, MEMORY_FULL, BROKEN = 3, 4, 5  # exit statuses


def forked(work: Callable[[int], NoReturn]) -> tuple[int, IO[bytes]]:
    """A copy of this process that works, and is given where to say what it found; its id, and what it says."""
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if child == 0:
        os.close(reading)
        work(writing)
    os.close(writing)
    return child, os.fdopen(reading, "rb", buffering=0)


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


def leave_after(work: Callable[[], int]) -> NoReturn:
    """The child's whole life: work, which answers the exit status, and nothing else of what its parent has begun."""
    code = BROKEN
    faulthandler.disable()  # what a child dies of is said in a sentence, and need not fill the screen
    try:
        limit("RLIMIT_CORE", 0)
        code = work()
    except MemoryError:
        code = MEMORY_FULL
    except BaseException:
        pass
    finally:
        os._exit(code)


def heard(pipe: IO[bytes], seconds: float, most: int) -> bytes | None:
    """What a child says next: None when it says nothing for so long, b'' when it has ended."""
    waiting = select.poll()  # `select` knows only the first 1024 files of a process
    waiting.register(pipe, select.POLLIN)
    return os.read(pipe.fileno(), most) if waiting.poll(max(0, math.ceil(1000 * seconds))) else None


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


def name_of(function: Callable[..., Any]) -> str:
    """A function of a module in words, for a fresh interpreter."""
    return f"{function.__module__}:{function.__qualname__}"


def by_name(words: str) -> Any:
    """The function that `name_of` has named."""
    module, _, name = words.partition(":")
    return getattr(importlib.import_module(module), name)


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
