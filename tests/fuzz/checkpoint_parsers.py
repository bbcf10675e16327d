"""Checkpoints of PyTorch, MindSpore and safetensors: the files, and the pickle inside one for itself."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np

from tensight.compare import checkpoints
from tensight.compare.checkpoints import pickles, safetensors_file, torch_writing
from tensight.compare.checkpoints.entry import of_array
from tests.fuzz.trying import Parser, Prepared

ENTRIES = [
    of_array("fc.weight", np.arange(6, dtype=np.float32).reshape(2, 3)),
    of_array("fc.bias", np.zeros(2, np.float32)),
    of_array("bn.count", np.array(3)),
]
VALUES: dict[str, checkpoints.Plain] = {"epoch": 3, "lr": 0.1, "name": "net"}


def _read(path: Path) -> None:
    found = checkpoints.read(path)
    assert found.total >= 0
    for entry in found.entries.values():
        entry.stats()
        entry.bytes()


def _file(folder: Path, ending: str) -> Prepared:
    path = folder / f"x{ending}"
    checkpoints.writer(path)[0](path, ENTRIES, VALUES, "torch")

    def read(data: bytes) -> None:
        path.write_bytes(data)
        _read(path)

    return Prepared(
        [path.read_bytes()], read, [b"Float32", b"F32", b'"data_offsets"', b"[0,99999999999]", b"PK\x03\x04"]
    )


def torch_zip(folder: Path) -> Prepared:
    return _file(folder, ".pt")


def safetensors(folder: Path) -> Prepared:
    return _file(folder, ".safetensors")


def mindspore(folder: Path) -> Prepared:
    return _file(folder, ".ckpt")


def torch_pickle(folder: Path) -> Prepared:
    """The description inside a good archive: else nearly every change ends at the archive's own checks."""
    path = folder / "x.pt"
    torch_writing.write(path, ENTRIES, VALUES, "torch")
    with zipfile.ZipFile(path) as archive:
        records = {info.filename: archive.read(info) for info in archive.infolist()}
    name = next(one for one in records if one.endswith("data.pkl"))

    def read(data: bytes) -> None:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for one, content in records.items():
                archive.writestr(one, data if one == name else content)
        path.write_bytes(packed.getvalue())
        _read(path)

    words = [
        b"ctorch._utils\n_rebuild_tensor_v2\n",
        b"cos\nsystem\n",
        b"R",
        b"b",
        b"\x8a\xff",
        b"}",
        b"]",
        b"(",
        b"t",
        b"u",
    ]
    return Prepared([records[name]], read, words)


def bare_pickle(folder: Path) -> Prepared:
    """The machine that reads pickles as data."""
    good = {"a": [1, 2.5, "x", None, True], "b": (1, (2, (3,))), "c": {"d": b"bytes", 5: -(2**70)}}
    values = {"n": np.float64(3.0), "a": np.arange(3), "t": np.dtype("<f4")}
    corpus = [pickle.dumps(one, protocol) for one in (good, values) for protocol in (2, 4)]
    return Prepared(
        corpus, lambda data: pickles.load(data, "x.pt"), [b"\x94", b"\x93", b"R", b"b", b"2", b"e", b"s", b"("]
    )


def shards(folder: Path) -> Prepared:
    safetensors_file.write(folder / "a.safetensors", ENTRIES[:2], {}, "torch")
    safetensors_file.write(folder / "b.safetensors", ENTRIES[2:], {}, "torch")
    path = folder / "model.safetensors.index.json"
    files = {"fc.weight": "a.safetensors", "fc.bias": "a.safetensors", "bn.count": "b.safetensors"}

    def read(data: bytes) -> None:
        path.write_bytes(data)
        _read(path)

    good = json.dumps({"metadata": {"total_size": 40}, "weight_map": files}).encode()
    return Prepared(
        [good], read, [b'"/etc/passwd"', b'"../a.safetensors"', b'"a.safetensors"', b'"\\u0000"', b'"weight_map"']
    )


PARSERS = [
    Parser("checkpoint-torch", torch_zip),
    Parser("checkpoint-pickle", torch_pickle),
    Parser("pickle", bare_pickle),
    Parser("checkpoint-safetensors", safetensors),
    Parser("checkpoint-mindspore", mindspore),
    Parser("checkpoint-shards", shards),
]
