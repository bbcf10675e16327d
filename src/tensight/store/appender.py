"""Appends frames to the newest segment, and begins a new one when a segment is full or cannot be written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tensight.store import layout
from tensight.store.codec import encode
from tensight.store.frame import FrameKind, pack, preamble
from tensight.store.segment import IndexEntry, encode_footer

_MOST_SKIPPED = 64


class Written(NamedTuple):
    """Where a frame went."""

    sequence: int
    offset: int
    size: int


class Skipped(Exception):
    """Not tried, since writing failed a moment ago; the message is that failure's."""


class Appender:
    """The file end of a writer. Its methods raise; the writer catches.

    A frame that could only be written in part is cut off again, and the next one goes to a new segment, which begins
    with everything known: so nothing refers to a record that was lost. While writing fails, only every n-th record
    is tried (n grows to 64), unless it is urgent.
    """

    def __init__(self, part: Path, header: Callable[[], bytes]) -> None:
        self._part = part
        self._header = header
        self._sequence = 0
        self._fd: int | None = None
        self._failures = 0
        self._skip = 0
        self._reason = ""
        self.number = -1
        self.index: list[IndexEntry] = []
        self._size = 0
        self._header_size = 0
        self._open()

    @property
    def next_sequence(self) -> int:
        return self._sequence + 1

    def append(self, kind: FrameKind, payload: bytes, *, urgent: bool = False) -> Written:
        """Write a frame by one write(); an OSError when it is not wholly there afterwards."""
        if self._fd is None and not urgent and self._skip > 0:
            self._skip -= 1
            raise Skipped(self._reason)
        try:
            if self._fd is not None:
                try:
                    return self._write(self._fd, kind, payload)
                except OSError:
                    self._abandon()
            written = self._write(self._open(), kind, payload)
        except OSError as error:
            self._abandon()
            self._failures = min(self._failures + 1, 16)
            self._skip = min(2**self._failures, _MOST_SKIPPED) - 1
            self._reason = str(error)
            raise
        self._failures = 0
        return written

    def full(self, limit: int) -> bool:
        """Whether this segment is to be closed; one with a large header may grow to four times that."""
        return self._fd is not None and self._size >= max(limit, 4 * self._header_size)

    def rotate(self) -> None:
        """Close this segment and begin the next."""
        self._finish()
        self._open()

    def close(self) -> None:
        """Close the last segment with its index."""
        self._finish()

    def _write(self, fd: int, kind: FrameKind, payload: bytes) -> Written:
        status = os.fstat(fd)
        if status.st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "the run directory was removed", str(self._part))
        self._sequence += 1
        frame = pack(kind, payload, self._sequence)
        try:
            write_whole(fd, frame)
        except OSError:
            os.ftruncate(fd, status.st_size)
            raise
        self._size = status.st_size + len(frame)
        return Written(self._sequence, status.st_size, len(frame))

    def _finish(self) -> None:
        """Write index and footer. A segment without them is read by walking through it, so a failure costs little."""
        if self._fd is None:
            return
        try:
            at = self._write(self._fd, FrameKind.INDEX, encode(self.index))
            self._write(self._fd, FrameKind.FOOTER, encode_footer(at.offset))
        finally:
            self._abandon()

    def _open(self) -> int:
        """Begin the next segment. It appears under its name with its header already inside."""
        number = self.number + 1
        path = layout.segment(self._part, number)
        temporary = path.with_name(path.name + ".new")
        header = self._header()
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._sequence += 1
            start = preamble(number) + pack(FrameKind.HEADER, header, self._sequence)
            write_whole(fd, start)
            os.rename(temporary, path)
        except BaseException:
            os.close(fd)
            _remove(temporary)
            raise
        self._fd = fd
        self.number = number
        self.index = []
        self._size = self._header_size = len(start)
        return fd

    def _abandon(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)


def write_whole(fd: int, data: bytes) -> None:
    """One write(); what a full disk or a size limit cut short is tried once more, to learn the reason."""
    count = os.write(fd, data)
    while count < len(data):
        count += os.write(fd, data[count:])


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        pass  # the folder is gone or read-only: the stray file harms nobody
