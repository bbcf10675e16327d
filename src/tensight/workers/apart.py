"""Many files of a stranger, taken apart by a child with little memory and time.

What the child makes of them is sent back. A file that fills its memory, hangs or kills it is left out with a sentence,
and another child reads the rest: one bad file does not hide a thousand good ones.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, NamedTuple, NoReturn, TypeVar

from tensight import errors
from tensight.errors import FormatError, TensightError
from tensight.workers import child

MEMORY = 1 << 30  # bytes that one file may take
PER_BYTE = 16  # and so many for each of its bytes: text becomes objects
SECONDS = 60.0  # without a sign of life, and one more for each ten megabytes
MOST_REFUSED = 16  # files; a folder with more of them is not worth the wait
_LARGE = 1 << 20  # bytes of a file from which its allowance is reckoned for it alone
_OFTEN = 1000  # files of less after which it is reckoned again
_TICK = 1.0  # seconds

Made = TypeVar("Made")


class Visit:
    """Goes with a reader of many files, which says what it opens; `without` are files it must not, and why."""

    def __init__(self, without: Mapping[Path, str] | None = None) -> None:
        self.without = dict(without or {})

    def at(self, file: Path, size: int = 0) -> None:
        """Said before a file is taken apart."""

    def goes_on(self, done: int = 0) -> None:
        """Said now and then while a long one is, with how many of its bytes were read."""


Read = Callable[[Path, Visit], Made]
Progress = Callable[[int, int], None]  # bytes of the file that were read, and all of them


def size_of(file: Path) -> int:
    """Its bytes, for what it may take; nothing when it cannot be looked at."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def read_apart(
    read: Read[Made],
    path: Path,
    *,
    memory: int = MEMORY,
    seconds: float = SECONDS,
    most: int = MOST_REFUSED,
    progress: Progress | None = None,
) -> Made:
    """What a reader, a function of a module, makes of a folder or a file; its own errors are raised here."""
    if not hasattr(os, "fork"):
        return read(path, Visit())
    without: dict[Path, str] = {}
    while True:
        ended = _child(read, path, without, memory, seconds, progress)
        if not ended.why:
            kind, made = pickle.loads(ended.made)  # written by our own child, not by a stranger
            if kind:
                raise getattr(errors, kind, FormatError)(made)
            result: Made = made
            return result
        if not ended.file or Path(ended.file) == path or Path(ended.file) in without:
            raise FormatError(f"{path} is refused: {ended.why}")
        without[Path(ended.file)] = ended.why
        if len(without) > most:
            raise FormatError(f"{path} is refused: more than {most} of its files cannot be read safely")


class _Ended(NamedTuple):
    """What a child came to: what it made, or why it ended and at which file."""

    made: bytes
    why: str
    file: str


def _child(
    read: Read[Made],
    path: Path,
    without: Mapping[Path, str],
    memory: int,
    seconds: float,
    progress: Progress | None,
) -> _Ended:
    start = _forked if threading.active_count() == 1 else _spawned
    with tempfile.TemporaryFile() as file:
        file.truncate(Place.BYTES)
        place = Place(file.fileno())
        pid, pipe = start(read, path, without, memory, file.fileno())
        with pipe:
            heard = bytearray()
            in_time, code = child.ended(pid, lambda: _listen(pipe, place, seconds, heard, progress))
        _, _, size, name = place.read()
    if not in_time:
        why = f"reading it takes more than {_allowed(seconds, size):.0f} seconds"
    elif code in (child.MEMORY_FULL, -signal.SIGKILL):
        why = "reading it takes more memory than a file of its size needs"
    else:
        why = "it breaks what reads it" if code else ""
    return _Ended(bytes(heard), why, name)


def _listen(pipe: IO[bytes], place: Place, seconds: float, heard: bytearray, progress: Progress | None = None) -> bool:
    """Take what a child says until it ends; False when it shows no sign of life for too long."""
    silent = 0.0
    last = -1
    while True:
        began = time.monotonic()
        piece = child.heard(pipe, min(_TICK, seconds), 1 << 20)
        if piece is not None:
            if not piece:
                return True
            heard += piece
            silent = 0.0
            continue
        signs, done, size, _ = place.read()
        if progress is not None:
            progress(done, size)
        # while both were stopped nobody was late
        silent = 0.0 if signs != last else silent + min(time.monotonic() - began, _TICK)
        last = signs
        if silent >= _allowed(seconds, size):
            return False


def _allowed(seconds: float, size: int) -> float:
    return seconds + size / 1e7


class Place:
    """Where a child is, in memory that it shares: no message has to be waited for, and it outlives the child."""

    BYTES = 1 << 13
    _HEAD = struct.Struct("<QQQH")  # signs of life, bytes that were read, bytes of the file, length of its name

    def __init__(self, handle: int) -> None:
        self._shared = mmap.mmap(handle, self.BYTES)
        self._signs = 0

    def write(self, name: bytes, size: int, done: int = 0) -> None:
        name = name[: self.BYTES - self._HEAD.size]
        self._signs += 1
        self._shared[self._HEAD.size : self._HEAD.size + len(name)] = name
        self._HEAD.pack_into(self._shared, 0, self._signs, done, size, len(name))

    def read(self) -> tuple[int, int, int, str]:
        signs, done, size, length = self._HEAD.unpack_from(self._shared)
        return signs, done, size, os.fsdecode(self._shared[self._HEAD.size : self._HEAD.size + length])


class _Telling(Visit):
    """The child's side: says where it is, and has a limit for each file."""

    def __init__(self, without: Mapping[Path, str], memory: int, place: Place) -> None:
        super().__init__(without)
        self._memory = memory
        self._place = place
        self._now = (b"", 0)
        self._small = 0
        self._ceiling = child.allowed("RLIMIT_DATA")
        self._allow(0)

    def at(self, file: Path, size: int = 0) -> None:
        self._now = (os.fsencode(file), size)
        self._place.write(*self._now)
        self._small += 1
        if size >= _LARGE or self._small >= _OFTEN:
            self._allow(size)

    def goes_on(self, done: int = 0) -> None:
        self._place.write(*self._now, done)

    def _allow(self, size: int) -> None:
        # what was read before stays allowed: it is the dump's, and no file's fault
        wanted = child.data_in_use() + self._memory + PER_BYTE * size
        child.limit("RLIMIT_DATA", min(wanted, self._ceiling))
        self._small = _OFTEN if size >= _LARGE else 0  # a small file after a large one has its own allowance again


def _forked(
    read: Read[Made], path: Path, without: Mapping[Path, str], memory: int, place: int
) -> tuple[int, IO[bytes]]:
    return child.forked(lambda writing: _work(read, path, without, memory, place, writing))


def _spawned(
    read: Read[Made], path: Path, without: Mapping[Path, str], memory: int, place: int
) -> tuple[int, IO[bytes]]:
    words = (child.name_of(read), str(place))
    pid, asking, pipe = child.spawned(__name__, *words, stdin=subprocess.PIPE, keep=(place,))
    assert asking is not None
    with contextlib.suppress(BrokenPipeError), asking:
        pickle.dump((path, dict(without), memory), asking)
    return pid, pipe


def _work(read: Read[Made], path: Path, without: Mapping[Path, str], memory: int, place: int, writing: int) -> NoReturn:
    """The child: limits first, then the files."""

    def work() -> int:
        telling = _Telling(without, memory, Place(place))
        made: tuple[str, object]
        try:
            made = ("", read(path, telling))
        except TensightError as error:
            made = (type(error).__name__, str(error))
        telling.at(path)  # the last file has done no harm
        with os.fdopen(writing, "wb") as out:
            pickle.dump(made, out, pickle.HIGHEST_PROTOCOL)
        return 0

    child.leave_after(work)


def main(words: list[str]) -> NoReturn:
    """`python -m tensight.workers.apart MODULE:FUNCTION PLACE`, the rest of the question on standard input."""
    path, without, memory = pickle.load(sys.stdin.buffer)
    _work(child.by_name(words[0]), path, without, memory, int(words[1]), sys.stdout.fileno())


if __name__ == "__main__":
    main(sys.argv[1:])
