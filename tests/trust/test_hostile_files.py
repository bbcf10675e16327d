"""Small files that claim or unfold to more than any memory holds: refused in one sentence, within little memory.

Files are mapped and looked at in place, and what they claim is checked against their size before memory is taken. That
a child with limits reads checkpoints first is shown beside this, in `test_limited_child.py`.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tensight.compare import checkpoints
from tensight.compare.checkpoints import pickles
from tensight.dump.readers import npy, scan
from tensight.errors import TensightError
from tensight.profiling import trace
from tensight.records import GraphInfo
from tensight.runs import muting
from tensight.store import graphs
from tensight.tuning import config
from tensight.watchpoints import spec
from tests.fuzz.trying import Parser, Prepared, try_parser

MOST = 200 << 20  # bytes of memory that any of these may take


def npy_of_four_terabytes(path: Path) -> Callable[[], object]:
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
    return lambda: npy.header(path, path.stat().st_size)


def dump_of_four_terabytes(path: Path) -> Callable[[], object]:
    place = path / "rank_0/Net/0/0"
    place.mkdir(parents=True)
    file = place / "ReLU.Default_act_ReLU-op0.0.0.1700000000000000.output.0.DefaultFormat.Float32.npy"
    npy_of_four_terabytes(file)
    return lambda: scan(path)


def safetensors_header_of_a_terabyte(path: Path) -> Callable[[], object]:
    path = path.with_suffix(".safetensors")
    path.write_bytes(struct.pack("<Q", 10**12) + b"{}")
    return lambda: checkpoints.read(path)


def safetensors_tensor_of_four_terabytes(path: Path) -> Callable[[], object]:
    path = path.with_suffix(".safetensors")
    text = json.dumps({"w": {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4 * 10**12]}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    return lambda: checkpoints.read(path)


def packed_checkpoint(path: Path) -> Callable[[], object]:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x/data.pkl", "w") as record:
        for _ in range(1000):
            record.write(bytes(1 << 20))
    return lambda: checkpoints.read(path)


def npz_bomb(path: Path) -> Callable[[], object]:
    path = path.with_suffix(".npz")
    made = io.BytesIO()
    np.save(made, np.zeros(100_000_000, np.uint8))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", made.getvalue())
    return lambda: checkpoints.read(path)


def pickle_that_doubles(path: Path) -> Callable[[], object]:
    """Tuples of tuples of tuples: forty lines that stand for a trillion values."""
    data = b"\x80\x02}X\x01\x00\x00\x00a)" + b"2\x86" * 40 + b"s."
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", data)
    return lambda: checkpoints.read(path)


def pickle_nested(path: Path) -> Callable[[], object]:
    return lambda: pickles.load(b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".", "x.pt") and _refuse()


def _refuse() -> None:
    """A deep list is no trouble by itself; what reads it has a limit of its own."""
    raise TensightError("read")


def tensor_unfolded(path: Path) -> Callable[[], object]:
    """One stored number, shown as a trillion by strides of 0."""
    torch = b"ctorch._utils\n_rebuild_tensor_v2\n"
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x01tQ"
    number = b"\x8a\x06" + (10**12).to_bytes(6, "little")
    data = b"\x80\x02}X\x01\x00\x00\x00w" + torch + b"(" + storage + b"K\x00" + number + b"\x85K\x00\x85\x89}tRs."
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", data)
        archive.writestr("x/data/0", bytes(4))
    return lambda: checkpoints.read(path)


def mindspore_of_many_dimensions(path: Path) -> Callable[[], object]:
    path = path.with_suffix(".ckpt")
    tensor = b"\x08\xff\xff\xff\xff\x0f" * 60 + b"\x12\x07Float32\x1a\x04" + bytes(4)
    value = b"\x0a\x01w\x12" + _number(len(tensor)) + tensor
    path.write_bytes(b"\x0a" + _number(len(value)) + value)
    return lambda: checkpoints.read(path)


def _number(value: int) -> bytes:
    return bytes([value & 127 | 128, value >> 7]) if value > 127 else bytes([value])


def graph_bomb(path: Path) -> Callable[[], object]:
    (path / "graphs").mkdir(parents=True)
    empty = {"name": "g", "step": 0, "note": "x" * (100 << 20)}
    (path / "graphs/graph-0.bin").write_bytes(zlib.compress(msgspec.msgpack.encode(empty), 9))
    return lambda: graphs.read(path, GraphInfo("g", 0, 1, "graphs/graph-0.bin"))


def trace_bomb(path: Path) -> Callable[[], object]:
    with gzip.open(path, "wb") as file:
        file.write(b'{"traceEvents": [')
        for _ in range(100):
            file.write(b" " * (1 << 20))
    return lambda: trace.summarise(path)


def trace_nested(path: Path) -> Callable[[], object]:
    path.write_text('{"traceEvents": [' + '{"a":' * 100_000)
    return lambda: trace.summarise(path)


def yaml_that_doubles(path: Path) -> Callable[[], object]:
    lines = ["  a0: &a0 [x, x]", *(f"  a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))]
    path.write_text("command: x\nparameters: {a: 1..2}\nenvironment:\n" + "\n".join(lines))
    return lambda: config.load(path)


def baseline_nested(path: Path) -> Callable[[], object]:
    path.write_text("[" * 100_000)
    return lambda: muting.load_baseline(path)


def expression_nested(path: Path) -> Callable[[], object]:
    return lambda: spec.parse("(" * 2400 + "max" + ")" * 2400 + " > 1", 1)


HOSTILE = [
    npy_of_four_terabytes,
    dump_of_four_terabytes,
    safetensors_header_of_a_terabyte,
    safetensors_tensor_of_four_terabytes,
    packed_checkpoint,
    npz_bomb,
    pickle_that_doubles,
    pickle_nested,
    tensor_unfolded,
    mindspore_of_many_dimensions,
    graph_bomb,
    trace_bomb,
    trace_nested,
    yaml_that_doubles,
    baseline_nested,
    expression_nested,
]


@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_it_is_refused_in_one_sentence_and_little_memory(
    make: Callable[[Path], Callable[[], object]], tmp_path: Path
) -> None:
    call = make(tmp_path / "hostile")

    def prepare(folder: Path) -> Prepared:
        return Prepared([b"good"], lambda data: None if data == b"good" else call())

    numbers = range(3)  # which bytes they are plays no part: the file is the case
    outcome = try_parser(Parser(make.__name__, prepare), numbers, 4, hang=120.0)
    assert outcome.crashes == []
    assert outcome.refused >= 1
    assert outcome.memory < MOST
