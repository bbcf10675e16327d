"""Makes a forked copy of a training harmless: nothing it does is seen outside.

The copy runs the user's code on. It must not write to the user's files, move the read position of a file that the
training reads, print, send, or start a program. Three nets lie under each other: file descriptors are replaced when the
copy is made, functions that change files are replaced when it begins to run, and what is left is refused by an audit
hook and a file-size limit of zero.
"""

from __future__ import annotations

import builtins
import ctypes
import io
import os
import resource
import signal
import stat
import sys
from collections.abc import Callable, Iterable
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PR_SET_PDEATHSIG = 1
_SILENT = frozenset(
    {
        "mkdir",
        "rmdir",
        "remove",
        "unlink",
        "rename",
        "replace",
        "link",
        "symlink",
        "truncate",
        "chmod",
        "chown",
        "lchown",
        "utime",
        "mkfifo",
        "mknod",
        "setxattr",
        "removexattr",
        "ftruncate",
        "fsync",
        "fdatasync",
    }
)
_REFUSED = (
    "socket.connect",
    "socket.bind",
    "socket.sendto",
    "subprocess.Popen",
    "os.system",
    "os.posix_spawn",
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.kill",
    "os.killpg",
)


class Refused(RuntimeError):
    """The user's code wanted something that a copy of the process must not do."""


Positions = dict[int, tuple[str, int]]


def read_positions() -> Positions:
    """Files that are open for reading, and how far: taken before the fork, since the copy shares the position."""
    found: Positions = {}
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        try:
            if stat.S_ISREG(os.fstat(number).st_mode):
                found[number] = (os.readlink(f"/proc/self/fd/{name}"), os.lseek(number, 0, os.SEEK_CUR))
        except OSError:
            continue  # the descriptor of the listing itself
    return found


def die_with_parent(parent: int) -> None:
    """Ask the kernel to end this process with its parent."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return  # the closed pipe ends it as well, if later
    if os.getppid() != parent:
        os._exit(0)


def quiet_signals() -> None:
    """Signals are the training's business: the copy keeps none of its handlers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)


def own_descriptors(keep: Iterable[int], positions: Positions) -> None:
    """Replace what was inherited: outputs, pipes and sockets by nothing, files that are read by own openings."""
    kept = set(keep)
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number in kept or number == nothing:
            continue
        try:
            mode = os.fstat(number).st_mode
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if stat.S_ISREG(mode) and _read_only(number) and number in positions:
            _reopen(number, *positions[number], nothing=nothing)
        elif target not in (os.devnull, "/dev/urandom", "/dev/zero"):
            os.dup2(nothing, number, inheritable=False)
    os.close(nothing)


def _read_only(number: int) -> bool:
    import fcntl

    return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY


def _reopen(number: int, path: str, position: int, *, nothing: int) -> None:
    try:
        fresh = os.open(path, os.O_RDONLY)
    except OSError:
        os.dup2(nothing, number, inheritable=False)  # a file that was deleted while open
        return
    os.lseek(fresh, position, os.SEEK_SET)
    os.dup2(fresh, number, inheritable=False)
    os.close(fresh)


def shared_memory() -> str:
    """A file that this process can change through a mapping; '' when there is none.

    What frameworks and semaphores map in /dev/shm is not looked at here: `Rewinds.enter_copy` knows what it is.
    """
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[1].startswith("rw") and fields[1].endswith("s"):
                path = fields[5].strip()
                if not path.startswith(("/dev/", "anon_inode:", "/memfd:", "/SYSV")):
                    return path
    return ""


def no_changes_outside(folder: str) -> Callable[[], None]:
    """Refuse or swallow what would change files, talk to others or start programs; gives back the way to our folder."""
    plain_open, plain_os_open = builtins.open, os.open
    inside = os.path.abspath(folder) + os.sep
    state = {"ours": False}

    def redirected(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if isinstance(file, int) or not set(mode) & set("wax+"):
            return plain_open(file, mode, *args, **kwargs)
        if "b" in mode:
            kwargs.pop("opener", None)
        return plain_open(os.devnull, mode.replace("x", "w"), *args, **kwargs)

    def redirected_os(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & _WRITES:
            return plain_os_open(os.devnull, os.O_RDWR)
        return plain_os_open(path, flags, mode, dir_fd=dir_fd)

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if state["ours"]:
            return
        if event in _REFUSED:
            raise Refused(f"the script calls {event}")
        if event == "open":
            path, _mode, flags = arguments
            if isinstance(flags, int) and flags & _WRITES and not isinstance(path, int):
                name = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
                if name != os.devnull and not os.path.abspath(name).startswith(inside):
                    raise Refused(f"the script writes {name}")

    replacements: dict[str, Any] = {name: getattr(os, name) for name in _SILENT if hasattr(os, name)}
    for name in replacements:
        setattr(os, name, _nothing)
    builtins.open = redirected
    io.open = redirected
    os.open = redirected_os
    sys.addaudithook(audit)
    _soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))

    def give_back() -> None:
        state["ours"] = True
        for name, original in replacements.items():
            setattr(os, name, original)
        builtins.open, io.open, os.open = plain_open, plain_open, plain_os_open
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

    return give_back


def _nothing(*args: object, **kwargs: object) -> None:
    return None
