"""TFRecord files of `tf.train.Example`, read without TensorFlow."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tensight.errors import FormatError
from tensight.store.protobuf import fields, varints

Array = np.ndarray[Any, Any]
MOST_RECORD = 1 << 30
_CHECKED = 1 << 16  # bytes up to which a record's own checksum is computed: Python is slow at it
_MASK = 0xA282EAD8


def records(path: Path) -> Iterator[bytes]:
    """The records of a file; a FormatError says where it is damaged."""
    with path.open("rb") as file:
        size = path.stat().st_size
        number = 0
        while head := file.read(12):
            if len(head) < 12:
                raise FormatError(f"{path} is cut off in record {number}")
            (length,) = struct.unpack("<Q", head[:8])
            if _masked(head[:8]) != struct.unpack("<I", head[8:])[0]:
                raise FormatError(f"{path} is no TFRecord file, or damaged in record {number}: a checksum is wrong")
            if length > min(size, MOST_RECORD):
                raise FormatError(f"{path} is refused: its record {number} claims {length:,} bytes")
            data, check = file.read(length), file.read(4)
            if len(data) < length or len(check) < 4:
                raise FormatError(f"{path} is cut off in record {number}")
            if length <= _CHECKED and _masked(data) != struct.unpack("<I", check)[0]:
                raise FormatError(f"{path} is damaged in record {number}: a checksum is wrong")
            yield data
            number += 1


def columns(path: Path, rows: int | None = None) -> dict[str, Array]:
    """The features of the first `rows` examples, each as one array; of bytes, uint8 rows where lengths agree."""
    found: dict[str, list[Array]] = {}
    for number, record in enumerate(records(path)):
        if rows is not None and number >= rows:
            break
        for name, values in example(record, f"{path}, record {number}").items():
            found.setdefault(name, []).append(values)
    stacked = {}
    for name, parts in found.items():
        if len({part.shape for part in parts}) > 1:
            raise FormatError(f"{path}: the feature {name[:80]!r} is of other lengths in other records")
        stacked[name] = np.stack(parts)
    return stacked


def example(record: bytes, where: str = "the record") -> dict[str, Array]:
    """One example's features.

    >>> example(b"\\n\\x0e\\n\\x0c\\n\\x01x\\x12\\x07\\x1a\\x05\\n\\x03\\x01\\x02\\x03")["x"].tolist()
    [1, 2, 3]
    """
    try:
        found = {}
        for number, features in _inside(record):
            for inner, entry in _inside(features) if number == 1 else ():
                if inner == 1:
                    pair = dict(_inside(entry))
                    found[bytes(pair[1]).decode()] = _feature(pair.get(2, b""))
        return found
    except (ValueError, KeyError, IndexError, struct.error) as error:
        raise FormatError(f"{where} is no tf.train.Example: {error}") from error


def _feature(data: Any) -> Array:
    for number, values in _inside(data):
        if number == 1:
            texts = [np.frombuffer(bytes(text), np.uint8) for _, text in _inside(values)]
            return texts[0] if len(texts) == 1 else np.concatenate(texts or [np.empty(0, np.uint8)])
        if number == 2:
            parts = [bytes(part) for _, part in _inside(values)]
            return np.frombuffer(b"".join(parts), "<f4")
        if number == 3:
            whole: list[int] = []
            for _, part in _inside(values):
                whole += [part] if isinstance(part, int) else varints(part)
            return np.array([_signed(value) for value in whole], np.int64)
    return np.empty(0, np.float32)


def _inside(message: Any) -> Iterator[tuple[int, Any]]:
    """Numbers and contents of the fields of a message; a number is none."""
    if isinstance(message, int):
        raise ValueError("a number stands where a message should")
    return fields(memoryview(message))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


@cache
def _table() -> tuple[int, ...]:
    found = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        found.append(byte)
    return tuple(found)


def _masked(data: bytes) -> int:
    """The checksum as these files hold it: CRC-32C, turned by 15 bits, and a constant added."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF
