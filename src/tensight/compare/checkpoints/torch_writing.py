"""Writes PyTorch checkpoints without torch: the zip, and a pickle of plain dictionaries and tensors."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tensight.compare.checkpoints.entry import Entry, Plain
from tensight.compare.checkpoints.pickles import DTYPES
from tensight.errors import CheckpointError

_STORAGES = {dtype: name for name, dtype in DTYPES.items()}


def write(path: Path, entries: Iterable[Entry], values: dict[str, Plain], framework: str) -> None:
    """Write a flat state dictionary. Plain values are no part of one: the caller says what became of them."""
    write_tree(path, {entry.name: entry for entry in entries})


def write_tree(path: Path, tree: dict[Any, Any]) -> None:
    """Write nested dictionaries and lists of entries and plain values, for `torch.load(weights_only=True)`."""
    written = _Pickle()
    written.value(tree)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + bytes(written.out) + b".")
        archive.writestr("archive/byteorder", b"little")
        for number, entry in enumerate(written.entries):
            with archive.open(zipfile.ZipInfo(f"archive/data/{number}"), "w", force_zip64=True) as record:
                record.write(entry.bytes().data)
        archive.writestr("archive/version", b"3\n")


class _Pickle:
    def __init__(self) -> None:
        self.out = bytearray()
        self.entries: list[Entry] = []

    def value(self, value: Any) -> None:
        if isinstance(value, Entry):
            self._tensor(value)
        elif isinstance(value, dict):
            self.out += b"}("
            for key, item in value.items():
                self.value(key)
                self.value(item)
            self.out += b"u"
        elif isinstance(value, list):
            self.out += b"]("
            for item in value:
                self.value(item)
            self.out += b"e"
        elif isinstance(value, tuple):
            self.out += b"("
            for item in value:
                self.value(item)
            self.out += b"t"
        elif value is None:
            self.out += b"N"
        elif isinstance(value, bool):
            self.out += b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            length = value.bit_length() // 8 + 1
            self.out += b"\x8a" + bytes([length]) + value.to_bytes(length, "little", signed=True)
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        else:
            text = str(value).encode()
            self.out += b"X" + struct.pack("<I", len(text)) + text

    def _tensor(self, entry: Entry) -> None:
        storage = _STORAGES.get(entry.dtype)
        if storage is None:
            raise CheckpointError(f"{entry.name} is {entry.dtype}, which cannot be written to a PyTorch file here")
        strides, step = [], 1
        for length in reversed(entry.shape):
            strides.append(step)
            step *= max(length, 1)
        key = str(len(self.entries))
        self.entries.append(entry)
        self.out += b"ctorch._utils\n_rebuild_tensor_v2\n(("
        self.value("storage")
        self.out += f"ctorch\n{storage}\n".encode()
        for part in (key, "cpu", entry.count):
            self.value(part)
        self.out += b"tQ"
        for described in (0, entry.shape, tuple(reversed(strides)), False):
            self.value(described)
        self.out += b"ccollections\nOrderedDict\n)RtR"
