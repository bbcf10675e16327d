"""One segment file, read from outside."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tensight.errors import UNDECODABLE, DamagedError, FormatError
from tensight.store import codec
from tensight.store.frame import FILE_MAGIC, FORMAT_VERSION, HEADER, PREAMBLE, Frame, FrameKind, Gap, scan, unpack

_FOOTER_SIZE = HEADER.size + 9  # a footer's payload is always a msgpack uint64: the index's offset


class IndexEntry(NamedTuple):
    """Where a step is. This is also a row of the index frame that closes a segment."""

    step: int
    sequence: int
    offset: int
    size: int
    hits: int
    thinned: bool


def encode_footer(index_offset: int) -> bytes:
    """The payload of a footer: always nine bytes, so that it is found from the end of the file."""
    return b"\xcf" + index_offset.to_bytes(8, "big")


class Segment:
    """A segment file: where its steps are, and what in it is damaged.

    `walk` reads frames from where it stopped before; `load_index` takes the index that a closed segment ends with.
    """

    def __init__(self, path: Path, number: int) -> None:
        self.path = path
        self.number = number
        self.entries: list[IndexEntry] = []
        self.damage: list[DamagedError] = []
        self.closed = False
        self.identity = identity(path)
        self._offset = 0

    def load_index(self) -> bool:
        """Take the steps from the index at the file's end. False when there is none that passes its check."""
        try:
            with self.path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < PREAMBLE.size + _FOOTER_SIZE:
                    return False
                if not self._begins_well(file.read(PREAMBLE.size)):
                    return False
                file.seek(size - _FOOTER_SIZE)
                footer = unpack(memoryview(file.read(_FOOTER_SIZE)), 0)
                if footer is None or footer.kind != FrameKind.FOOTER:
                    return False
                place = codec.decode(footer.payload, int)
                if not 0 <= place < size:
                    return False
                file.seek(place)
                index = unpack(memoryview(file.read(size)), 0)
                if index is None or index.kind != FrameKind.INDEX:
                    return False
                entries = codec.decode(index.payload, list[IndexEntry])
                if any(one.offset < 0 or not 0 < one.size <= size - one.offset for one in entries):
                    return False
                self.entries = entries
        except (OSError, *UNDECODABLE):
            return False
        self.closed = True
        self._offset = size
        return True

    def walk(self, apply: Callable[[Frame], None]) -> list[IndexEntry]:
        """Read on from where the last walk stopped; returns the new steps and hands every other frame to `apply`."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        if self._offset == 0:
            if len(data) < PREAMBLE.size:
                return []
            if not self._begins_well(data):
                self.closed = True
                self.damage.append(self.damaged_at(0, "it does not begin like a segment of a run"))
                return []
            data = data[PREAMBLE.size :]
            self._offset = PREAMBLE.size
        new: list[IndexEntry] = []
        for found in scan(data, self._offset):
            if isinstance(found, Gap):
                self._offset = found.offset + found.size
                self.damage.append(self.damaged_at(found.offset, f"{found.size} bytes fail their check"))
                continue
            self._offset = found.offset + found.size
            try:
                if found.kind == FrameKind.STEP:
                    head, thinned = codec.decode_head(found.payload)
                    new.append(IndexEntry(head.step, found.sequence, found.offset, found.size, len(head.hits), thinned))
                elif found.kind == FrameKind.FOOTER:
                    self.closed = True
                elif found.kind != FrameKind.INDEX:
                    apply(found)
            except UNDECODABLE as error:
                self.damage.append(self.damaged_at(found.offset, f"its record cannot be understood, {error}"))
        self.entries.extend(new)
        return new

    def payload(self, entry: IndexEntry) -> memoryview | None:
        """The payload of a step's frame; None when the file was rewritten or dropped since it was indexed."""
        try:
            with self.path.open("rb") as file:
                if self._differs(_identity(os.fstat(file.fileno()))):
                    return None
                file.seek(entry.offset)
                data = file.read(entry.size)
        except FileNotFoundError:
            return None
        frame = unpack(memoryview(data), 0)
        if frame is None or frame.sequence != entry.sequence:
            raise self.damaged_at(entry.offset, f"the frame of step {entry.step} fails its check")
        return frame.payload

    def rewritten(self) -> bool:
        """Whether another file stands in its place now. A file that only grew is the same."""
        return self._differs(identity(self.path))

    def _differs(self, now: tuple[int, int, int]) -> bool:
        return now != self.identity if self.closed else now[0] != self.identity[0]

    def settle(self) -> None:
        """Remember the file as it is now that it grows no more."""
        self.identity = identity(self.path)

    def damaged_at(self, offset: int, what: str) -> DamagedError:
        return DamagedError(f"{self.path} is damaged at byte {offset}: {what}; what stands before it can be read")

    def _begins_well(self, data: bytes) -> bool:
        magic, version, _ = PREAMBLE.unpack_from(data)
        if magic == FILE_MAGIC and version > FORMAT_VERSION:
            raise FormatError(
                f"{self.path.parent.parent} has run format {version}, newer than the {FORMAT_VERSION} that this "
                "Tensight reads: update tensight to open it"
            )
        return bool(magic == FILE_MAGIC)


def identity(path: Path) -> tuple[int, int, int]:
    """What tells a rewritten file from the one that was there: inode, time and size."""
    try:
        return _identity(path.stat())
    except OSError:
        return (0, 0, 0)


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return (status.st_ino, status.st_mtime_ns, status.st_size)
