"""Headers of .npy files, read without trusting them: no pickle, no allocation, no more than a few kilobytes."""

from __future__ import annotations

import ast
import os
import warnings
from pathlib import Path

import numpy as np

from tensight.dump.readers.base import HELD, Raw
from tensight.errors import DamagedError, FormatError

_MAGIC = b"\x93NUMPY"
_MOST_HEADER = 1 << 16
_OWN = {np.dtype(held).str: name for name, held in HELD.items() if name not in ("bfloat16", "float8_e5m2")}
_OWN[np.dtype("u1").str], _OWN[np.dtype("<u2").str] = "uint8", "uint16"


def header(path: Path, size: int) -> Raw:
    """Where the values of a .npy file are, and what they are."""
    try:
        # a pipe or device in place of a file must not hang us
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        raise DamagedError(f"{path.name} cannot be read: {error.strerror or error}") from error
    with open(handle, "rb") as file:
        data = file.read(_MOST_HEADER + 12)
    if data[:6] != _MAGIC or len(data) < 12:
        raise FormatError(f"{path.name} is no .npy file: it does not begin like one")
    if data[6] not in (1, 2, 3):
        raise FormatError(f"{path.name} is of version {data[6]} of the .npy format, which is not known")
    wide = 2 if data[6] == 1 else 4
    length = int.from_bytes(data[8 : 8 + wide], "little")
    begin = 8 + wide
    if length > _MOST_HEADER or begin + length > len(data):
        raise DamagedError(f"{path.name} is cut off or damaged: its header claims {length:,} bytes")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is thought of the style of a damaged header is nobody's concern
            text = data[begin : begin + length].decode("utf-8" if data[6] == 3 else "latin1").strip()
            facts = ast.literal_eval(text)
            descr, fortran, shape = facts["descr"], facts["fortran_order"], facts["shape"]
            if not isinstance(descr, str) or "O" in descr:
                raise FormatError(f"{path.name} is refused: it holds Python objects or records, not one plain dtype")
            dtype = np.dtype(descr)
        if not isinstance(shape, tuple) or not all(type(one) is int and one >= 0 for one in shape) or len(shape) > 32:
            raise ValueError(f"its shape is {str(shape)[:60]}")
    except FormatError:
        raise
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())[:80]
        raise DamagedError(f"{path.name} is damaged: its header cannot be read ({said})") from error
    if dtype.kind not in "fiubc" or dtype.itemsize > 16:
        raise FormatError(f"{path.name} is of the dtype {descr[:40]}, which is no tensor's")
    own = _OWN.get(dtype.newbyteorder("<").str if dtype.itemsize > 1 else dtype.str, dtype.name)
    return Raw(path, begin + length, own, dtype.str, shape, bool(fortran)).check(size)
