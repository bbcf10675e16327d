"""Asynchronous dumps of Ascend devices, as far as their format is published. Not verified on a device.

A file is 8 bytes (the length of its head), a head in protobuf, then the values of all inputs and all outputs:
head 3 output, 4 input, 6 operator; tensor 1 dtype, 2 format, 3 shape {1 dimension}, size 5 (input) or 6 (output).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

from tensight.dump.readers.base import HELD, Dumped, Found, Raw, Tree, numbered, rank_of
from tensight.dump.readers.mindspore_names import describe
from tensight.errors import DamagedError, TensightError
from tensight.store.protobuf import fields, varints

_NAME = re.compile(
    r"(?P<type>[A-Za-z]\w*)\.(?P<name>.+)\.(?P<task>\d+)\.(?P<stream>\d+)\.(?P<time>\d{10,18})", re.DOTALL
)
_DTYPES = {
    1: "float32", 2: "float16", 3: "int8", 4: "uint8", 5: "int16", 6: "uint16", 7: "int32", 8: "int64", 9: "uint32",
    10: "uint64", 11: "bool", 12: "float64", 16: "complex64", 17: "complex128", 27: "bfloat16",
}  # fmt: skip
_MOST_HEAD = 16 << 20


def read(tree: Tree, found: Found) -> Iterator[Dumped]:
    for folder, files in tree.all():
        iteration = numbered(folder.name)
        if iteration is None:
            continue
        for name, size in files.items():
            parts = _NAME.fullmatch(name)
            if parts is None or parts["type"] == "Opdebug":
                continue
            rank = rank_of(tree.root, folder, "rank_")
            if not any(part.startswith("rank_") for part in folder.parts):
                rank = _device(tree.root, folder)
            found.framework = found.framework or "mindspore"
            tree.visit.at(folder / name)  # its head alone is read, which has a limit
            try:
                yield from _dumped(folder / name, size, parts, rank, iteration, folder.parent.parent.name)
            except (TensightError, OSError, ValueError, IndexError, struct.error) as error:
                found.trouble(f"{tree.name(folder / name)} cannot be read as a dump of Ascend: {error}")


def _device(root: Path, folder: Path) -> int:
    """`{time}/{device}/{model}/{model id}/{iteration}`: the device is the first plain number below the time."""
    parts = folder.relative_to(root).parts
    return next((int(one) for one in parts[:-3] if one.isdecimal() and len(one) < 4), 0)


def _dumped(path: Path, size: int, parts: re.Match[str], rank: int, iteration: int, network: str) -> Iterator[Dumped]:
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > min(size - 8, _MOST_HEAD):
            raise DamagedError(f"its head claims {length:,} bytes and the file has {size:,}")
        head = list(fields(memoryview(file.read(length))))
    at = 8 + length
    name = parts["name"]
    for number, io, size_field in ((4, "input", 5), (3, "output", 6)):
        for slot, body in enumerate(body for key, body in head if key == number):
            if isinstance(body, int):
                raise DamagedError(f"{io} {slot} is a number and not a tensor")
            dtype, shape, held = _tensor(body, size_field)
            raw = Raw(path, at, dtype, HELD[dtype], shape)
            if raw.nbytes > held:
                raise DamagedError(f"{io} {slot} claims the shape {shape} in {held:,} bytes")
            info = describe(name, parts["type"], io, slot, shape, dtype, network)
            yield Dumped(rank, iteration, float(parts["time"]), info, raw.check(size), None, name)
            at += held


def _tensor(body: memoryview, size_field: int) -> tuple[str, tuple[int, ...], int]:
    code = held = 0
    shape: tuple[int, ...] = ()
    for key, value in fields(body):
        if key == 1 and isinstance(value, int):
            code = value
        elif key == size_field and isinstance(value, int):
            held = value
        elif key == 3 and isinstance(value, memoryview):
            shape = _dimensions(value)
    if code not in _DTYPES:
        raise DamagedError(f"a tensor is of the dtype number {code}, which is not known")
    return _DTYPES[code], shape, held


def _dimensions(body: memoryview) -> tuple[int, ...]:
    found: list[int] = []
    for key, value in fields(body):
        if key == 1 and isinstance(value, int):
            found.append(value)
        elif key == 1 and isinstance(value, memoryview):  # packed
            found.extend(varints(value))
    if len(found) > 32:
        raise DamagedError("a tensor has more than 32 dimensions")
    return tuple(found)
