"""Writes the files of a dump, at once or in a thread behind a bounded queue."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from tensight.dump.direct import Direct

Array = np.ndarray[Any, Any]
_PILE = 8 << 20  # bytes: waking the thread for each tensor costs the training more than the writing
_LONGEST_REST = 0.2  # seconds until what is less than a pile is written too
_MAGIC = b"\x93NUMPY\x01\x00"


class File(NamedTuple):
    """A tensor that is to become a file."""

    path: Path
    value: Array


class Output(Protocol):
    """Takes files; `trouble` says what was not written."""

    def put(self, file: File) -> None: ...
    def append(self, path: Path, text: str) -> None: ...
    def close(self) -> None: ...
    def trouble(self) -> list[str]: ...


class Written:
    """What was written, and what could not be."""

    def __init__(self) -> None:
        self.files = 0
        self.bytes = 0
        self.lost = 0
        self.first = ""  # why, of the first that was lost

    def failed(self, path: Path, error: OSError) -> None:
        self.lost += 1
        self.first = self.first or f"{path.name}: {error.strerror or error}"

    def words(self) -> list[str]:
        return [f"{self.lost} files of the dump could not be written, the first {self.first}"] if self.lost else []


def write(path: Path, value: Array, written: Written, made: set[Path], direct: Direct | None = None) -> None:
    """One tensor as .npy, or as plain values when the name ends in .bin. The folder is made when it is not there."""
    try:
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            made.add(path.parent)
        value = value if value.flags.c_contiguous else np.ascontiguousarray(value)
        header = _header(value) if path.suffix == ".npy" else b""
        plain = value.reshape(-1).view(np.uint8)
        if direct is None or not direct.write(path, header, plain):
            # unbuffered: header and values go to the system as they are, without a copy in between
            with open(path, "wb", buffering=0) as file:
                file.write(header)
                _whole(file.write, plain.data)
        written.files += 1
        written.bytes += value.nbytes
    except OSError as error:
        written.failed(path, error)


def _whole(write: Callable[[Any], int | None], view: memoryview) -> None:
    """One call writes at most 2 GB."""
    while view:
        view = view[write(view) or 0 :]


def _header(value: Array) -> bytes:
    """Of version 1.0 of the format, as NumPy writes it."""
    text = f"{{'descr': {value.dtype.str!r}, 'fortran_order': False, 'shape': {value.shape!r}, }}"
    padding = -(len(_MAGIC) + 2 + len(text) + 1) % 64
    return _MAGIC + (len(text) + padding + 1).to_bytes(2, "little") + f"{text}{' ' * padding}\n".encode()


class Synchronous:
    """Writes each file before it returns."""

    def __init__(self) -> None:
        self._written = Written()
        self._made: set[Path] = set()
        self._texts = _Texts(self._written)

    @property
    def written(self) -> Written:
        return self._written

    def put(self, file: File) -> None:
        write(file.path, file.value, self._written, self._made)

    def append(self, path: Path, text: str) -> None:
        self._texts.append(path, text)

    def close(self) -> None:
        """Nothing is left to do: all was written when it came."""

    def trouble(self) -> list[str]:
        return self._written.words()


class Asynchronous:
    """Writes in a thread. The queue holds at most `limit` bytes; a file that finds no room within `patience` seconds,
    counted over a whole step, is dropped and said so.
    """

    def __init__(self, limit: int, patience: float) -> None:
        self._written = Written()
        self._limit = limit
        self._patience = patience
        self._left = patience
        self._waiting: deque[File | tuple[Path, str]] = deque()
        self._held = 0
        self._pile = 0  # bytes that came since the thread was woken
        self._due = False  # there is enough to do
        self._changed = threading.Condition()
        self._closed = False
        self.dropped = 0
        self.dropped_bytes = 0
        self.waited = 0.0
        self._thread = threading.Thread(target=self._work, name="tensight dump", daemon=True)
        self._thread.start()

    @property
    def written(self) -> Written:
        return self._written

    def put(self, file: File) -> None:
        size = file.value.nbytes
        with self._changed:
            if self._held and self._held + size > self._limit and not self._room(size):
                self.dropped += 1
                self.dropped_bytes += size
                return
            self._waiting.append(file)
            self._held += size
            self._pile += size
            if self._pile >= min(_PILE, self._limit // 2):
                self._wake()

    def append(self, path: Path, text: str) -> None:
        with self._changed:
            self._left = self._patience  # a step is over: the next may wait again
            self._waiting.append((path, text))
            self._wake()

    def close(self) -> None:
        """Wait until everything that was taken is written."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def trouble(self) -> list[str]:
        dropped = (
            f"{self.dropped} tensors ({self.dropped_bytes:,} bytes) were not dumped: the disk did not keep up and the "
            f"queue of {self._limit:,} bytes was full; dump less, or raise async_dump_settings.queue_mb"
        )
        return [*([dropped] if self.dropped else []), *self._written.words()]

    def _room(self, size: int) -> bool:
        """Wait for room, for what is left of this step's patience."""
        self._wake()
        began = time.monotonic()
        self._changed.wait_for(lambda: not self._held or self._held + size <= self._limit, max(0.0, self._left))
        spent = time.monotonic() - began
        self._left -= spent
        self.waited += spent
        return not self._held or self._held + size <= self._limit

    def _wake(self) -> None:
        self._pile = 0
        self._due = True
        self._changed.notify_all()

    def _work(self) -> None:
        made: set[Path] = set()
        texts = _Texts(self._written)
        direct = Direct()
        while True:
            with self._changed:
                if not self._waiting:
                    self._due = False
                    self._changed.wait_for(lambda: self._due or self._closed, _LONGEST_REST)
                if not self._waiting:
                    if self._closed:
                        return
                    continue
                job = self._waiting.popleft()
                behind = self._held > self._limit // 2  # the page cache takes more at once than a disk does
            if isinstance(job, File):
                write(job.path, job.value, self._written, made, None if behind else direct)
                with self._changed:
                    self._held -= job.value.nbytes
                    self._changed.notify_all()
            else:
                texts.append(*job)


class _Texts:
    """Appends lines to small files."""

    def __init__(self, written: Written) -> None:
        self._written = written
        self._made: set[Path] = set()

    def append(self, path: Path, text: str) -> None:
        try:
            if path.parent not in self._made:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._made.add(path.parent)
            with open(path, "a", encoding="utf-8", errors="backslashreplace", newline="") as file:
                file.write(text)
        except OSError as error:
            self._written.failed(path, error)


def why_not_writable(path: Path) -> str:
    """Why a dump cannot go to a folder; '' when it can."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        return f"the dump cannot go to {path}: {error.strerror or error}"
    return "" if os.access(path, os.W_OK | os.X_OK) else f"the dump cannot go to {path}: it may not be written"
