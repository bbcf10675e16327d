"""Copies values of a dump into a run's own file, a piece at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tensight.dump.measuring import pieces, values
from tensight.dump.readers.base import Raw
from tensight.files import replacing

_NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def copy_tensors(path: Path, step: int, kept: Mapping[int, Raw], dtypes: Mapping[int, str]) -> int:
    """Write values as a safetensors file, one tensor in memory at a time; returns its size."""
    head: dict[str, object] = {
        "__metadata__": {
            **{f"dtype.{id}": dtypes[id] or raw.dtype for id, raw in kept.items()},
            "step": str(step),
            "format": "tensight",
        }
    }
    at = 0
    for id, raw in kept.items():
        name, shape = _form(raw)
        size = int(np.dtype(name).itemsize)
        for length in shape:
            size *= length
        head[str(id)] = {"dtype": _NAMES[name], "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(exist_ok=True)
    with replacing(path) as new, open(new, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for raw in kept.values():
            if _plain(raw):
                for piece in pieces(raw):
                    file.write(piece.view(np.uint8).data)
                continue
            array = values(raw)
            if array.dtype.kind == "c":
                array = np.stack([array.real, array.imag], axis=-1)
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return 8 + len(text) + at


def _form(raw: Raw) -> tuple[str, tuple[int, ...]]:
    """Dtype and shape as they are written: complex numbers as pairs, small floats as float32."""
    if raw.dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return "float32", raw.shape
    if raw.dtype.startswith("complex"):
        return ("float32" if raw.dtype == "complex64" else "float64"), (*raw.shape, 2)
    return np.dtype(raw.held).newbyteorder("=").name, raw.shape


def _plain(raw: Raw) -> bool:
    """Whether the bytes of the dump are those of the run."""
    return raw.dtype in _NAMES and not raw.fortran and np.dtype(raw.held).isnative
