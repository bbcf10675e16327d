"""Journals: files beside the log of a rank that hold one kind of record each, appended and never rewritten.

A journal is a row of frames as in the log (`tensight.store.frame`), without a preamble. It is bounded: when it is full,
nothing more is written to it.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, TypeVar

from tensight.errors import UNDECODABLE, DamagedError
from tensight.store.appender import write_whole
from tensight.store.codec import decode, encode
from tensight.store.frame import Frame, pack, scan

PRINTS = "prints.log"
SAMPLES = "samples.log"
AUDIT = "audit.log"
KIND = 100  # of no frame of the log
MIB = 1 << 20
T = TypeVar("T")


class Journal:
    """Appends records to a file; each is there whole or not at all after a kill."""

    def __init__(self, path: Path, most: int = 64 * MIB) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._handle: int | None = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._size = os.fstat(self._handle).st_size
        self._most = most
        self._sequence = 0
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def append(self, record: Any) -> bool:
        """Write a record; False when the journal is full or closed. An OSError when it is not wholly there."""
        if os.getpid() != self._pid:
            return False
        with self._lock:
            data = pack(KIND, encode(record), self._sequence + 1)
            if self._handle is None or self._size + len(data) > self._most:
                return False
            try:
                write_whole(self._handle, data)
            except OSError:
                os.ftruncate(self._handle, self._size)  # half a record would be read as damage
                raise
            self._sequence += 1
            self._size += len(data)
            return True

    def close(self) -> None:
        with self._lock:
            if self._handle is not None:
                os.close(self._handle)
                self._handle = None


def read(path: Path, type: type[T], after: int = 0) -> list[tuple[int, T]]:
    """Records with their numbers, those above `after`; none when there is no such journal."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    found: list[tuple[int, T]] = []
    for frame in scan(data, 0):
        if isinstance(frame, Frame) and frame.sequence > after:
            try:
                found.append((frame.sequence, decode(frame.payload, type)))
            except UNDECODABLE as error:
                said = f"{path} is damaged at byte {frame.offset}: its record cannot be understood, {error}"
                raise DamagedError(said) from error
    return found
