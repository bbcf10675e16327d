"""Kept tensors: safetensors files, one per step, named by tensor id."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tensight.errors import DamagedError
from tensight.files import replacing
from tensight.store import links

Array = np.ndarray[Any, Any]

# What safetensors writes from NumPy; everything else is turned into one of these, and its own dtype is noted.
_WRITABLE = frozenset(
    ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")
)


class KeptTensor(msgspec.Struct, frozen=True):
    """A tensor as it was; `dtype` is its own, also where NumPy has no such dtype and `array` is float32."""

    array: Any
    dtype: str


def write(path: Path, step: int, arrays: Mapping[int, Array], dtypes: Mapping[int, str]) -> int:
    """Write tensors of a step, together with those kept before; returns the size of the file.

    The file appears whole or not at all.
    """
    import safetensors.numpy  # not before a tensor is kept: most trainings never do, and it takes memory

    plain = {str(id): _plain(array) for id, array in arrays.items()}
    notes = {f"dtype.{id}": dtypes.get(id) or array.dtype.name for id, array in arrays.items()}
    if path.exists():
        with safetensors.safe_open(path, framework="numpy") as file:
            notes = {**file.metadata(), **notes}
            plain = {**{key: file.get_tensor(key) for key in file.keys()}, **plain}  # noqa: SIM118
    path.parent.mkdir(exist_ok=True)
    with replacing(path) as new:
        safetensors.numpy.save_file(plain, new, metadata={**notes, "step": str(step), "format": "tensight"})
        return new.stat().st_size


def read(path: Path, tensor: int) -> KeptTensor | None:
    """One tensor of a file; None when the file was dropped or does not hold it."""
    import safetensors

    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            if str(tensor) not in file.keys():  # noqa: SIM118
                return None
            array = file.get_tensor(str(tensor))
            dtype = (file.metadata() or {}).get(f"dtype.{tensor}", array.dtype.name)
    except FileNotFoundError:
        from tensight.store import remote  # a training writes only

        if remote.fetch_missing(path):
            return read(path, tensor)
        linked = links.read(path, tensor)
        return None if linked is None else KeptTensor(*linked)
    except safetensors.SafetensorError as error:
        raise DamagedError(f"{path} is damaged: {error}") from error
    if dtype in ("complex64", "complex128") and array.dtype.kind == "f":
        array = array.view(dtype)[..., 0]
    return KeptTensor(array, dtype)


def _plain(array: Array) -> Array:
    array = np.asarray(array)
    if array.dtype.kind == "c":
        if array.dtype.name not in ("complex64", "complex128"):
            array = array.astype("complex128")
        array = np.stack([array.real, array.imag], axis=-1)
    elif array.dtype.name not in _WRITABLE:
        # bfloat16, 8-bit floats and 4-bit integers of ml_dtypes are all exact in float32
        array = array.astype("float64" if array.dtype.itemsize > 4 else "float32")
    if array.dtype.byteorder == ">" or not array.flags.c_contiguous:
        array = array.astype(array.dtype.newbyteorder("="), order="C")
    return array
