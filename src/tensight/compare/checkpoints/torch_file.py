"""PyTorch checkpoints (.pt, .pth): a zip of tensors and a pickle that describes them. Needs no torch."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tensight.compare.checkpoints import numpy_values, pickles
from tensight.compare.checkpoints.entry import HELD, Array, Checkpoint, Entry, Plain, mapped, of_array
from tensight.errors import CheckpointError

MAGIC = b"PK\x03\x04"
LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
MOST_DESCRIPTION = 256 << 20
_MOST_VALUES = 2_000_000
_FEW_VALUES = 10_000
_DEEPEST = 50
_LOCAL_HEADER = 30


def read(path: Path) -> Checkpoint:
    """A checkpoint made by `torch.save` of dictionaries of tensors and plain values."""
    file = mapped(path)
    records = _records(path, file)
    if "data.pkl" not in records:
        raise CheckpointError(f"{path} is a zip file, but no PyTorch checkpoint: it has no data.pkl")
    start, size = records["data.pkl"]
    if size > MOST_DESCRIPTION:
        raise CheckpointError(f"{path} is refused: the description of its tensors has {size:,} bytes")
    if "byteorder" in records and b"big" in _bytes(file, records["byteorder"]):
        raise CheckpointError(f"{path} was written on a big-endian machine, which is not supported")
    described = pickles.load(bytes(file[start : start + size]), str(path))
    entries: dict[str, Entry] = {}
    values: dict[str, Plain] = {}
    nested: set[str] = set()
    unread: dict[str, str] = {}
    for name, value in _leaves(described, path, nested, size):
        if isinstance(value, pickles.Strided):
            entries[name] = _entry(name, value, records, file)
        elif isinstance(value, numpy_values.Held) and value.array is not None:
            entries[name] = of_array(name, value.array)
        elif value is None or isinstance(value, (bool, int, float, str)):
            values[name] = value
        else:
            unread[name] = value.text if isinstance(value, pickles.Name) else type(value).__name__
    if not entries:
        raise CheckpointError(f"{path} holds no tensor")
    return Checkpoint(path, "torch", "torch", entries, frozenset(nested), values, unread)


def refuse_legacy(path: Path) -> Checkpoint:
    """The format before PyTorch 1.6."""
    raise CheckpointError(
        f"{path} is in the format of PyTorch before 1.6, which is not read here; "
        "load it with weights_only=True and save it again"
    )


def _bytes(file: Array, place: tuple[int, int]) -> bytes:
    return bytes(file[place[0] : place[0] + place[1]])


def _records(path: Path, file: Array) -> dict[str, tuple[int, int]]:
    """Where each record lies, by its name without the archive's own folder."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, struct.error, NotImplementedError) as error:
        raise CheckpointError(f"{path} is cut off or damaged: it is no whole zip file ({error})") from error
    records = {}
    for info in found:
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise CheckpointError(
                f"{path} is refused: its record {info.filename} is packed, which PyTorch never does, "
                f"and would unpack to {info.file_size:,} bytes"
            )
        at = info.header_offset
        header = bytes(file[at : at + _LOCAL_HEADER])
        if len(header) < _LOCAL_HEADER or header[:4] != MAGIC:
            raise CheckpointError(f"{path} is damaged: its record {info.filename} is not where it should be")
        start = at + _LOCAL_HEADER + sum(struct.unpack("<HH", header[26:30]))
        if start + info.file_size > file.size:
            raise CheckpointError(f"{path} is cut off or damaged: its record {info.filename} is not whole")
        records[info.filename.partition("/")[2]] = (start, info.file_size)
    return records


def _leaves(value: Any, path: Path, nested: set[str], size: int) -> Iterator[tuple[str, Any]]:
    """Everything that is no container, by its path in the containers.

    A value takes at least a byte of a description of `size` bytes, unless containers hold each other many times over.
    """
    most = min(_MOST_VALUES, max(_FEW_VALUES, size))
    waiting: list[tuple[str, Any, int]] = [("", value, 0)]
    seen = 0
    while waiting:
        name, value, depth = waiting.pop()
        seen += 1
        if seen > most or depth > _DEEPEST:
            raise CheckpointError(f"{path} is refused: its containers are nested beyond any use")
        if isinstance(value, dict):
            parts = [(str(key), item) for key, item in value.items()]
        elif isinstance(value, (list, tuple)) and not isinstance(
            value, (pickles.Strided, pickles.Storage, pickles.Name)
        ):
            parts = [(str(number), item) for number, item in enumerate(value)]
        else:
            yield name or "tensor", value
            continue
        nested.add(name)
        for key, item in reversed(parts):
            waiting.append((f"{name}.{key}" if name else key, item, depth + 1))


def _entry(name: str, tensor: pickles.Strided, records: dict[str, tuple[int, int]], file: Array) -> Entry:
    dtype = "uint8" if tensor.storage.dtype == "bytes" else tensor.storage.dtype
    if dtype not in HELD:
        raise CheckpointError(f"{name} is of the type {dtype}, which is not known here")
    place = records.get(f"data/{tensor.storage.key}")
    if place is None:
        raise CheckpointError(f"the file lacks the values of {name}: it is damaged")
    start, size = place
    held = np.dtype(HELD[dtype])
    last = tensor.offset + sum((length - 1) * step for length, step in zip(tensor.shape, tensor.strides))
    if 0 not in tensor.shape and (last + 1) * held.itemsize > size:
        raise CheckpointError(f"{name} reaches beyond its values in the file: it is damaged")
    count = 1
    for length in tensor.shape:
        count *= length
    if count * held.itemsize > max(size, 1) * 64 and count > 1 << 20:
        raise CheckpointError(f"{name} would unfold {size:,} bytes to {count:,} values: refused")
    return Entry(name, dtype, tensor.shape, _strided(file, start, held, tensor), tensor.trainable)


def _strided(file: Array, start: int, held: np.dtype[Any], tensor: pickles.Strided) -> Callable[[], Array]:
    steps = tuple(step * held.itemsize for step in tensor.strides)
    at = start + tensor.offset * held.itemsize

    def made() -> Array:
        if 0 in tensor.shape:
            return np.empty(tensor.shape, held)
        return np.ndarray(tensor.shape, held, file, at, steps)

    return made
