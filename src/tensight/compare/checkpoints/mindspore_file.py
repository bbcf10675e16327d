"""MindSpore checkpoints (.ckpt): protobuf messages of names and tensors. Needs no mindspore.

The file is a row of `value` messages: a tag and a tensor of dimensions, type and content. A tensor above half a
gigabyte comes in several messages with the same tag. A checksum may follow the last.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tensight.compare.checkpoints.entry import HELD, Array, Checkpoint, Entry, Plain, mapped
from tensight.errors import CheckpointError
from tensight.store import protobuf

_DTYPES = {
    "Float64": "float64",
    "Float32": "float32",
    "Float16": "float16",
    "BFloat16": "bfloat16",
    "Int64": "int64",
    "Int32": "int32",
    "Int16": "int16",
    "Int8": "int8",
    "UInt64": "uint64",
    "UInt32": "uint32",
    "UInt16": "uint16",
    "UInt8": "uint8",
    "Bool": "bool",
}
_WORDS = {dtype: word for word, dtype in _DTYPES.items()}
_SLICE = 512 << 20
_MOST_TENSORS = 5_000_000
_TRAILER = 17
_BESIDE = frozenset(("epoch", "lr", "epoch_num", "step_num", "loss_scale"))  # what callbacks add to the weights


def matches(head: bytes, size: int) -> bool:
    """Whether a file begins with a `value` message that fits into it and begins with a tag.

    >>> matches(bytes([10, 6, 10, 1, 119, 18, 1, 0]), 8)
    True
    """
    if len(head) < 5 or head[0] != 0x0A:
        return False
    try:
        length, at = _varint(head, 1, len(head))
    except CheckpointError:
        return False
    return at + length <= size and at < len(head) and head[at] == 0x0A


def read(path: Path) -> Checkpoint:
    """A MindSpore checkpoint; its values are read when they are asked for."""
    file = mapped(path)
    end = _checked_end(path, file)
    pieces: dict[str, tuple[str, tuple[int, ...], list[tuple[int, int]]]] = {}
    at = number = 0
    data: memoryview = file.data
    while at < end:
        field, wire, at = _key(data, at, end)
        start, stop = _span(data, at, end, wire, str(path))
        at = stop
        if field != 1 or wire != 2:
            raise CheckpointError(f"{path} is no MindSpore checkpoint, or is damaged: field {field} is unknown")
        number += 1
        if number > _MOST_TENSORS:
            raise CheckpointError(f"{path} is refused: it has more tensors than any network")
        name, dtype, shape, place = _value(data, start, stop, path)
        if name in pieces:
            if pieces[name][:2] != (dtype, shape):
                raise CheckpointError(f"{path} is damaged: the parts of {name!r} do not belong together")
            pieces[name][2].append(place)
        else:
            pieces[name] = (dtype, shape, [place])
    if not pieces:
        raise CheckpointError(f"{path} holds no tensor")
    entries: dict[str, Entry] = {}
    values: dict[str, Plain] = {}
    for name, (dtype, shape, places) in pieces.items():
        if dtype == "str":
            values[name] = _plain_text(b"".join(bytes(file[start:stop]) for start, stop in places))
            continue
        entry = _entry(path, name, dtype, shape, places, file)
        if name in _BESIDE and entry.shape == ():
            values[name] = entry.numpy().reshape(()).item()
        else:
            entries[name] = entry
    return Checkpoint(path, "mindspore", "mindspore", entries, values=values)


def _plain_text(content: bytes) -> str:
    """Text as NumPy holds it, four bytes a character."""
    return content.decode("utf-32-le" if len(content) % 4 == 0 else "utf-8", "replace").rstrip("\0")


def _checked_end(path: Path, file: Array) -> int:
    tail = bytes(file[-_TRAILER:])
    if len(tail) == _TRAILER and tail.startswith(b"crc_num"):
        end = file.size - _TRAILER
        if zlib.crc32(file[:end].data) != int.from_bytes(tail[7:], "big"):
            raise CheckpointError(f"{path} is damaged: its checksum is wrong")
        return int(end)
    return int(file.size)


def _entry(
    path: Path, name: str, dtype: str, shape: tuple[int, ...], places: list[tuple[int, int]], file: Array
) -> Entry:
    if dtype not in _DTYPES:
        raise CheckpointError(f"{path}: {name!r} is of the type {dtype!r}, which is not known here")
    held = np.dtype(HELD[_DTYPES[dtype]])
    size = sum(stop - start for start, stop in places)
    if shape == (0,) and size == held.itemsize:
        shape = ()  # how earlier versions write a scalar
    count = 1
    for length in shape:
        count *= length
    if size != count * held.itemsize:
        raise CheckpointError(f"{path} is damaged: {name!r} of shape {list(shape)} has {size:,} bytes")
    return Entry(name, _DTYPES[dtype], shape, _joined(file, places, held, shape))


def _joined(
    file: Array, places: list[tuple[int, int]], held: np.dtype[Any], shape: tuple[int, ...]
) -> Callable[[], Array]:
    def made() -> Array:
        parts = [np.asarray(file[start:stop]) for start, stop in places]
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return np.frombuffer(whole, held).reshape(shape) if whole.size else np.empty(shape, held)

    return made


def _value(data: memoryview, at: int, end: int, path: Path) -> tuple[str, str, tuple[int, ...], tuple[int, int]]:
    name, tensor = "", None
    for field, start, stop, _ in _fields(data, at, end, str(path)):
        if field == 1:
            name = bytes(data[start:stop]).decode("utf-8", "replace")
        elif field == 2:
            tensor = (start, stop)
        elif field == 3:
            raise CheckpointError(f"{path}: {name!r} is a map parameter, which is not read here")
    if tensor is None or not name:
        raise CheckpointError(f"{path} is no MindSpore checkpoint, or is damaged: an entry has no name or no tensor")
    dims: list[int] = []
    dtype, place = "", (0, 0)
    for field, start, stop, number in _fields(data, *tensor, str(path)):
        if field == 1:
            dims.extend([number] if number is not None else _packed(data, start, stop))
        elif field == 2:
            dtype = bytes(data[start : min(stop, start + 64)]).decode("utf-8", "replace")
        elif field == 3:
            place = (start, stop)
    if len(dims) > 64:
        raise CheckpointError(f"{path} is damaged: {name!r} has {len(dims)} dimensions")
    return name, dtype, tuple(dims), place


def _packed(data: memoryview, at: int, end: int) -> Iterator[int]:
    while at < end:
        number, at = _varint(data, at, end)
        yield number


def _fields(data: memoryview, at: int, end: int, path: str) -> Iterator[tuple[int, int, int, int | None]]:
    while at < end:
        field, wire, at = _key(data, at, end)
        if wire == 0:
            number, at = _varint(data, at, end)
            yield field, at, at, number
        else:
            start, at = _span(data, at, end, wire, path)
            yield field, start, at, None


def _key(data: memoryview, at: int, end: int) -> tuple[int, int, int]:
    key, at = _varint(data, at, end)
    return key >> 3, key & 7, at


def _span(data: memoryview, at: int, end: int, wire: int, path: str) -> tuple[int, int]:
    if wire == 2:
        length, at = _varint(data, at, end)
    elif wire in (1, 5):
        length = 8 if wire == 1 else 4
    else:
        raise CheckpointError(f"{path} is no MindSpore checkpoint, or is damaged or encrypted")
    if at + length > end:
        raise CheckpointError(f"{path} is cut off or damaged: a tensor ends beyond the file")
    return at, at + length


def _varint(data: Any, at: int, end: int) -> tuple[int, int]:
    with contextlib.suppress(IndexError, ValueError):
        value, at = protobuf.varint(data, at)
        if at <= end:
            return value, at
    raise CheckpointError("the checkpoint is cut off or damaged: a number in it has no end")


def write(path: Path, entries: Iterable[Entry], values: dict[str, Plain], framework: str) -> None:
    """Write a MindSpore checkpoint; plain values become entries of their own, as `append_dict` does it."""
    with path.open("wb") as file:
        for entry in entries:
            if entry.dtype not in _WORDS:
                raise CheckpointError(f"{entry.name} is {entry.dtype}, which a MindSpore checkpoint cannot hold")
            content = entry.bytes()
            for start in range(0, max(content.size, 1), _SLICE):
                _put(file, entry.name, entry.shape, _WORDS[entry.dtype], content[start : start + _SLICE].tobytes())
        for name, value in values.items():
            if isinstance(value, str):
                _put(file, name, (0,), "str", np.array(value).tobytes())
            elif value is not None:
                kind = "Bool" if isinstance(value, bool) else "Int64" if isinstance(value, int) else "Float32"
                _put(file, name, (), kind, np.array(value, HELD[_DTYPES[kind]]).tobytes())


def _put(file: Any, name: str, shape: tuple[int, ...], dtype: str, content: bytes) -> None:
    tensor = b"".join(b"\x08" + protobuf.number(length) for length in shape)
    tensor += protobuf.field(2, dtype.encode()) + b"\x1a" + protobuf.number(len(content))
    value = protobuf.field(1, name.encode()) + b"\x12" + protobuf.number(len(tensor) + len(content)) + tensor
    file.write(b"\x0a" + protobuf.number(len(value) + len(content)) + value)
    file.write(content)
