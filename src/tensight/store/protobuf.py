"""The few things of protobuf's wire format that graphs and dumps of MindSpore and files of records need."""

from __future__ import annotations

from collections.abc import Iterator


def fields(data: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    """Fields in order: numbers as numbers, everything else as its bytes.

    >>> list(fields(memoryview(number(1 << 3) + number(300))))
    [(1, 300)]
    """
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
            yield key >> 3, value
            continue
        if kind == 2:
            length, at = varint(data, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field is of the unknown kind {kind}")
        if length > len(data) - at:
            raise ValueError("a field is longer than what it stands in")
        yield key >> 3, data[at : at + length]
        at += length


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number and the place behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number has no end")


def varints(data: memoryview) -> list[int]:
    """Numbers side by side."""
    found = []
    at = 0
    while at < len(data):
        value, at = varint(data, at)
        found.append(value)
    return found


def number(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def field(key: int, body: bytes) -> bytes:
    """
    >>> field(1, b"ab")
    b'\\n\\x02ab'
    """
    return number(key << 3 | 2) + number(len(body)) + body
