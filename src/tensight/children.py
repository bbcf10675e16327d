"""Children of a training that are Tensight's: a script that waits for all of its children must not meet them.

A copy that stands ready for a rewind, or the page's server, live as long as the training. A script that calls
`os.wait()` until none is left would never end. So the functions that wait for any child leave ours out, as long as
there is one. (A child that is handed to process 1 would not be met either, but in a container process 1 is often the
training itself, or collects nobody.)
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

LOOK_AGAIN = 0.5  # seconds after which one looks whether children have come or gone that nothing was heard of

_ours: dict[int, str] = {}  # process → when it was started, as its number may be another's later
_whose = 0  # the process whose children these are: a child that the script forks has none of them
_plain: dict[str, Callable[..., Any]] = {}


def hide(pid: int) -> None:
    """From now on this child is ours: whoever waits for any child does not get it. Calls that name it still do."""
    global _whose
    prepare()
    if _whose != os.getpid():
        _ours.clear()
        _whose = os.getpid()
    _ours[pid] = _facts(pid)[1]


def collected(pid: int) -> None:
    """It is gone, and its exit status was taken."""
    _ours.pop(pid, None)


def prepare() -> None:
    """Put our functions in place of those of `os`, before a script takes them by name."""
    if _plain or not hasattr(os, "waitid") or not os.path.isdir("/proc/self"):
        return
    for name, ours in (
        ("wait", _wait),
        ("wait3", _wait3),
        ("wait4", _wait4),
        ("waitpid", _waitpid),
        ("waitid", _waitid),
    ):
        there = getattr(os, name)
        _plain[name] = there
        ours.__name__ = ours.__qualname__ = name
        ours.__module__, ours.__doc__ = there.__module__, there.__doc__
        setattr(os, name, ours)


def _wait() -> Any:
    return _waitpid(-1, 0)


def _waitpid(pid: int, options: int, /) -> Any:
    return _any_or(pid, options, lambda child, how: _plain["waitpid"](child, how))


def _wait3(options: int) -> Any:
    return _wait4(-1, options)


def _wait4(pid: int, options: int) -> Any:
    return _any_or(pid, options, lambda child, how: _plain["wait4"](child, how))


def _any_or(pid: int, options: int, ask: Callable[[int, int], Any]) -> Any:
    if not isinstance(pid, int) or pid > 0 or not _have_some():
        return ask(pid, options)
    group = None if pid == -1 else os.getpgrp() if pid == 0 else -pid
    return _first(group, options, ask, lambda answer: bool(answer[0]))


def _waitid(idtype: int, id: int, options: int, /) -> Any:
    plain = _plain["waitid"]
    if idtype not in (os.P_ALL, os.P_PGID) or not _have_some():
        return plain(idtype, id, options)
    group = None if idtype == os.P_ALL else id or os.getpgrp()
    return _first(group, options, lambda child, how: plain(os.P_PID, child, how), lambda answer: answer is not None)


def _have_some() -> bool:
    if not _ours or _whose != os.getpid():
        return False
    for pid, started in list(_ours.items()):
        parent, since = _facts(pid)
        if parent != _whose or since != started:
            _ours.pop(pid, None)
    return bool(_ours)


def _first(group: int | None, options: int, ask: Callable[[int, int], T], done: Callable[[T], bool]) -> T:
    """What the system would answer had the training no children of ours."""
    while True:
        others = [pid for pid in _children() if pid not in _ours and (group is None or _group(pid) == group)]
        answers: list[T] = []
        for pid in others:
            try:
                answers.append(ask(pid, options | os.WNOHANG))
            except ChildProcessError:
                continue  # another thread was quicker, or the system collects them by itself
            if done(answers[-1]):
                return answers[-1]
        if not answers:
            raise ChildProcessError(errno.ECHILD, os.strerror(errno.ECHILD))
        if options & os.WNOHANG:
            return answers[-1]
        _until_one_ends(others)


def _until_one_ends(pids: list[int]) -> None:
    waiting = select.poll()
    opened = []
    try:
        for pid in pids:
            try:
                opened.append(os.pidfd_open(pid))
            except (AttributeError, OSError):  # an older system; no descriptor is left; it has just gone
                time.sleep(0.01)
                return
            waiting.register(opened[-1], select.POLLIN)
        waiting.poll(int(1000 * LOOK_AGAIN))
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _children() -> list[int]:
    own = os.getpid()
    try:
        found: list[int] = []
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children") as line:
                found += map(int, line.read().split())
    except OSError:  # a kernel that does not list them
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and _facts(int(name))[0] == own]
    return found


def _facts(pid: int) -> tuple[int, str]:
    """The parent of a process, and when it was started."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as line:
            words = line.read().rpartition(b")")[2].split()
        return int(words[1]), words[19].decode()
    except (OSError, IndexError, ValueError):
        return 0, ""


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0
