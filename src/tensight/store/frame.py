"""Frames: the unit of which segments are made.

A segment is a preamble (magic, format version, segment number) and frames. A frame is a header of 24 bytes (magic,
kind, reserved, length, checksum, sequence number) and its payload. Every frame is appended by one write(), so after
a kill a frame is either there or cut at the end of the file.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

FORMAT_VERSION = 1

# 0xF5 occurs in no UTF-8 text, so no name or line of code inside a payload looks like the start of a frame.
MAGIC = b"\xf5TSF"
FILE_MAGIC = b"TENSIGHT"
PREAMBLE = struct.Struct("<8sII")  # file magic, format version, segment number
HEADER = struct.Struct("<4sHHIIQ")  # magic, kind, reserved, length of the payload, checksum, sequence number
_CHECKED = struct.Struct("<HHIQ")  # what the checksum covers beside the payload
MAX_PAYLOAD = 1 << 30


class FrameKind(enum.IntEnum):
    """What a frame holds. Readers pass over kinds they do not know."""

    HEADER = 1
    NETWORK = 2
    PART = 3
    TENSORS = 4
    WATCHPOINT = 5
    WATCHPOINT_REMOVED = 6
    STEP = 7
    FINDINGS = 8
    REPLAY = 9
    COVERAGE = 10
    CRASH = 11
    KEPT = 12
    END = 13
    INDEX = 14
    FOOTER = 15
    GRAPH = 16


class Frame(NamedTuple):
    """A frame that passed its check; `offset` and `size` are of the whole frame in its file."""

    kind: int
    sequence: int
    offset: int
    size: int
    payload: memoryview


def pack(kind: int, payload: bytes, sequence: int) -> bytes:
    """A whole frame as bytes.

    >>> len(pack(FrameKind.STEP, b"abc", 1)) - len(b"abc")
    24
    """
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"a record of {len(payload)} bytes is too large for a frame")
    check = zlib.crc32(payload, zlib.crc32(_CHECKED.pack(kind, 0, len(payload), sequence)))
    return HEADER.pack(MAGIC, kind, 0, len(payload), check, sequence) + payload


def preamble(number: int) -> bytes:
    """The first bytes of segment `number`."""
    return PREAMBLE.pack(FILE_MAGIC, FORMAT_VERSION, number)


def unpack(data: memoryview, position: int, base: int = 0) -> Frame | None:
    """The frame at `position`, or None when it is not whole or fails its check. `base` is the file offset of `data`."""
    if len(data) - position < HEADER.size:
        return None
    magic, kind, reserved, length, check, sequence = HEADER.unpack_from(data, position)
    start = position + HEADER.size
    if magic != MAGIC or length > MAX_PAYLOAD or start + length > len(data):
        return None
    payload = data[start : start + length]
    if zlib.crc32(payload, zlib.crc32(_CHECKED.pack(kind, reserved, length, sequence))) != check:
        return None
    return Frame(kind, sequence, base + position, HEADER.size + length, payload)


class Gap(NamedTuple):
    """Bytes between two good frames that fail their check."""

    offset: int
    size: int


def scan(data: bytes, base: int) -> Iterator[Frame | Gap]:
    """Frames of `data` in order. Bad bytes come as a Gap when a good frame follows; a bad tail just ends the scan."""
    view = memoryview(data)
    position = 0
    while position < len(data):
        frame = unpack(view, position, base)
        if frame is None:
            following = _next_good(data, view, position + 1)
            if following is None:
                return
            yield Gap(base + position, following - position)
            position = following
        else:
            yield frame
            position += frame.size


def _next_good(data: bytes, view: memoryview, start: int) -> int | None:
    """Where the next frame that passes its check begins."""
    position = data.find(MAGIC, start)
    while position >= 0:
        if unpack(view, position) is not None:
            return position
        position = data.find(MAGIC, position + 1)
    return None
