"""safetensors files: a length, a JSON header, and bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tensight.compare.checkpoints.entry import HELD, Checkpoint, Entry, mapped, view
from tensight.errors import CheckpointError

MOST_HEADER = 100_000_000  # what the format itself allows
_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
    "C64": "complex64",
}
_WORDS = {dtype: word for word, dtype in _DTYPES.items()}
_FRAMEWORKS = {"pt": "torch", "ms": "mindspore"}


def matches(head: bytes, size: int) -> bool:
    """Whether a file begins as a safetensors file does.

    >>> matches(b"\\x02\\0\\0\\0\\0\\0\\0\\0{}", 10)
    True
    """
    return len(head) >= 9 and head[8:9] == b"{"


def read(path: Path) -> Checkpoint:
    """A safetensors file; its values are read when they are asked for."""
    file = mapped(path)
    if file.size < 9:
        raise CheckpointError(f"{path} is cut off: it ends inside its header")
    (length,) = struct.unpack("<Q", bytes(file[:8]))
    if length > MOST_HEADER:
        raise CheckpointError(f"{path} is refused: it announces a header of {length:,} bytes")
    if 8 + length > file.size:
        raise CheckpointError(f"{path} is cut off or damaged: it ends inside its header")
    try:
        header: Any = json.loads(bytes(file[8 : 8 + length]))
        if not isinstance(header, dict):
            raise ValueError("it is no object")
        metadata = header.pop("__metadata__", None) or {}
        entries = {name: _entry(path, name, said, 8 + length, file) for name, said in header.items()}
        framework = _FRAMEWORKS.get(str(metadata.get("format")), "")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: its header cannot be read ({error})") from error
    return Checkpoint(path, "safetensors", framework, entries)


def _entry(path: Path, name: str, said: dict[str, Any], base: int, file: Any) -> Entry:
    dtype = _DTYPES.get(said["dtype"])
    if dtype is None:
        raise CheckpointError(f"{path}: {name} is of the type {said['dtype']}, which is not known here")
    shape = tuple(int(length) for length in said["shape"])
    begin, end = (int(place) for place in said["data_offsets"])
    held = view(file, base + begin, dtype, shape, f"{path}: {name}")
    count = 1
    for length in shape:
        count *= length

    if begin < 0 or end - begin != count * np.dtype(HELD[dtype]).itemsize:
        raise CheckpointError(f"{path} is damaged: the bytes of {name} do not fit its shape")
    return Entry(name, dtype, shape, held)


def write(path: Path, entries: Iterable[Entry], values: dict[str, Any], framework: str) -> None:
    """Write a safetensors file; plain values go into its metadata as text."""
    header: dict[str, Any] = {}
    metadata = {str(name): str(value) for name, value in values.items()}
    if framework:
        metadata["format"] = "ms" if framework == "mindspore" else "pt"
    if metadata:
        header["__metadata__"] = metadata
    at = 0
    entries = list(entries)
    for entry in entries:
        if entry.dtype not in _WORDS:
            raise CheckpointError(f"{entry.name} is {entry.dtype}, which safetensors cannot hold")

        size = entry.count * np.dtype(HELD[entry.dtype]).itemsize
        header[entry.name] = {
            "dtype": _WORDS[entry.dtype],
            "shape": list(entry.shape),
            "data_offsets": [at, at + size],
        }
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for entry in entries:
            file.write(entry.bytes().data)
