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

from tensight.dump.direct import BLOCK, Direct

Array = np.ndarray[Any, Any]
_PILE = 8 << 20  # bytes: waking the thread for each tensor costs the training more than the writing
_HUNG = 60.0  # seconds without a file written after which a disk is not waited for at the end of a training
_LONGEST_REST = 0.2  # seconds until what is less than a pile is written too
_MAGIC = b"\x93NUMPY\x01\x00"


class File(NamedTuple):
    """A tensor that is to become a file."""

    path: Path
    value: Array


class Output(Protocol):
    """Takes files; `trouble` says what was not written, `close` whether the disk still answers."""

    def put(self, file: File) -> None: ...
    def append(self, path: Path, text: str) -> None: ...
    def close(self) -> bool: ...
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
        plain = value.reshape(-1).view(np.uint8)
        # a header of a whole block, so that the values need not be moved to lie as disks want them
        multiple = BLOCK if direct is not None and direct.takes(plain) else 64
        header = _header(value, multiple) if path.suffix == ".npy" else b""
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


def _header(value: Array, multiple: int = 64) -> bytes:
    """Of version 1.0 of the format, as NumPy writes it, filled up to a multiple of so many bytes."""
    text = f"{{'descr': {value.dtype.str!r}, 'fortran_order': False, 'shape': {value.shape!r}, }}"
    padding = -(len(_MAGIC) + 2 + len(text) + 1) % multiple
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

    def close(self) -> bool:
        """Nothing is left to do: all was written when it came."""
        return True

    def trouble(self) -> list[str]:
        return self._written.words()


class Asynchronous:
    """Writes in a thread. The queue holds at most `limit` bytes; a file that finds no room within `patience` seconds,
    counted over a whole step, is dropped and said so. At the end a disk that writes nothing for `hung` seconds is given
    up, so that it does not hold the user's program.
    """

    def __init__(self, limit: int, patience: float, hung: float = _HUNG) -> None:
        self._written = Written()
        self._limit = limit
        self._patience = patience
        self._hung = hung
        self._left = patience
        self._waiting: deque[File | tuple[Path, str]] = deque()
        self._held = 0
        self._pile = 0  # bytes that came since the thread was woken
        self._due = False  # there is enough to do
        self._changed = threading.Condition()
        self._closed = False
        self._done = 0
        self.dropped = 0
        self.dropped_bytes = 0
        self.given_up = 0  # files and lines that a disk which hangs was not waited for, the one under way included
        self.given_up_bytes = 0
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

    def close(self) -> bool:
        """Wait until everything that was taken is written, as long as the disk gets on; False when it does not."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        while self._thread.is_alive():
            done = self._done
            self._thread.join(self._hung)
            with self._changed:
                if self._done != done or not self._thread.is_alive():
                    continue
                self.given_up = len(self._waiting) + 1
                self.given_up_bytes = self._held
                self._waiting.clear()  # should the disk come back, nothing more is begun
                return False
        return True

    def trouble(self) -> list[str]:
        one = self.given_up == 1
        hung = (
            f"{self.given_up} file{'' if one else 's'} of the dump ({self.given_up_bytes:,} bytes)"
            f" {'was' if one else 'were'} not written, and the last one may be cut off: the disk has written nothing"
            f" for {self._hung:.0f} s"
        )
        dropped = (
            f"{self.dropped} tensors ({self.dropped_bytes:,} bytes) were not dumped: the disk did not keep up and the "
            f"queue of {self._limit:,} bytes was full; dump less, or raise async_dump_settings.queue_mb"
        )
        return [*([dropped] if self.dropped else []), *([hung] if self.given_up else []), *self._written.words()]

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
            self._done += 1


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
