"""Dumps made by hand, in the formats that no program here can write any more."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from tensight.store.protobuf import field, number

Array = np.ndarray[Any, Any]


def npy(
    folder: Path, name: str, value: Array, *, rank: int = 0, step: int = 0, time: int = 0, net: str = "Net"
) -> Path:
    """A file of MindSpore 2.x: `name` is '{type}.{name}.{io}.{slot}'."""
    head, io, slot = name.rsplit(".", 2)
    place = folder / f"rank_{rank}" / net / "0" / str(step)
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{head}.0.0.{1_700_000_000_000_000 + time}.{io}.{slot}.DefaultFormat.{_word(value)}.npy"
    np.save(path, value)
    return path


def _word(value: Array) -> str:
    return {"float32": "Float32", "float16": "Float16", "int32": "Int32", "float64": "Float64"}.get(
        value.dtype.name, value.dtype.name
    )


def bin_of_r11(folder: Path, name: str, value: Array, *, step: int = 0, device: int = 0) -> Path:
    """A file of r1.1: `name` is '{full name}.{io}.{slot}'."""
    head, io, slot = name.rsplit(".", 2)
    place = folder / "ResNet50" / f"device_{device}" / f"iteration_{step}"
    place.mkdir(parents=True, exist_ok=True)
    shape = "".join(f"{length}_" for length in value.shape)
    flat = head.replace("/", "--")
    path = place / f"{flat}_{io}_{slot}_shape_{shape}{_word(value)}_DefaultFormat.bin"
    path.write_bytes(value.tobytes())
    return path


def ascend(folder: Path, name: str, inputs: list[Array], outputs: list[Array], *, step: int = 0) -> Path:
    """A file of an Ascend device, as its format is published."""
    codes = {"float32": 1, "float16": 2, "int32": 7}
    head = b""
    for key, size_key, values in ((4, 5, inputs), (3, 6, outputs)):
        for value in values:
            dims = b"".join(number(1 << 3) + number(length) for length in value.shape)
            body = number(1 << 3) + number(codes[value.dtype.name]) + field(3, dims)
            head += field(key, body + number(size_key << 3) + number(value.nbytes))
    place = folder / "20260101000000" / "0" / "Net" / "1" / str(step)
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{name}.3.7.1700000000000000"
    path.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(v.tobytes() for v in (*inputs, *outputs)))
    return path
