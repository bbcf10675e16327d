"""The run directory: its log with and without right checksums, its graphs, kept tensors, journals and small files."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tensight.control import address
from tensight.control.address import Address
from tensight.errors import TensightError
from tensight.records import Graph, Source
from tensight.records.audit import AuditEntry
from tensight.records.graph import Frame as StackFrame
from tensight.records.graph import GraphNode, Scope
from tensight.records.print import BatchSamples, Print, PrintedValue, Sample
from tensight.runs import audit, beats, open_run, prints
from tensight.store import Reader, Writer, graphs, journal, kept, links
from tensight.store.codec import encode
from tensight.store.frame import PREAMBLE, Frame, FrameKind, pack, scan
from tensight.testing.store_suite import run_info, sample_step
from tests.fuzz.trying import Parser, Prepared
from tests.page.recorded import write_run

READ_STEPS = 20


def _recorded(folder: Path) -> Path:
    write_run(folder / "run", steps=6, bad_from=4)
    return folder / "run"


def log(folder: Path) -> Prepared:
    """The log as bytes: nearly every change is damage."""
    run = _recorded(folder)
    path = run / "rank-0" / "000000.log"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        _read_whole(run)

    return Prepared([path.read_bytes()], read, [b"\xf5TSF", b"TENSIGHT"])


def records(folder: Path) -> Prepared:
    """The records in the log, changed and given a right checksum: what a stranger could write."""
    run = _recorded(folder)
    path = run / "rank-0" / "000000.log"
    whole = path.read_bytes()
    frames = [one for one in scan(whole[PREAMBLE.size :], PREAMBLE.size) if isinstance(one, Frame)]
    head = next(one for one in frames if one.kind == FrameKind.HEADER)
    beginning = whole[: head.offset + head.size]
    corpus = {(one.kind, bytes(one.payload)[:40]): one for one in frames}.values()

    def read(data: bytes) -> None:
        kind = data[0] if data else 0
        packed = pack(kind, data[1:], 10**6)
        path.write_bytes((whole[: PREAMBLE.size] if kind == FrameKind.HEADER else beginning) + packed + packed)
        _read_whole(run)

    return Prepared(
        [bytes([one.kind]) + bytes(one.payload) for one in corpus], read, [b"\xc0", b"\xcb\x7f\xf8", b"\xdf"]
    )


def _read_whole(folder: Path) -> None:
    reader = Reader(folder)
    for step in list(reader.steps.numbers)[:READ_STEPS]:
        _only_ours(lambda step=step: reader.steps.at(step))  # type: ignore[misc]
        _only_ours(lambda step=step: reader.steps.head(step))  # type: ignore[misc]
    for name in list(reader.graphs):
        _only_ours(lambda name=name: reader.graph(name))  # type: ignore[misc]
    run = open_run(folder)
    _only_ours(run.report)


def _only_ours(call: Callable[[], Any]) -> None:
    said = ""
    try:
        call()
    except TensightError as error:
        said = str(error)
    assert "\n" not in said


def index(folder: Path) -> Prepared:
    """The index that closes a segment, with a right checksum."""
    writer = Writer(folder / "run", run_info(), segment_bytes=4096)
    for step in range(30):
        writer.step(sample_step(step))
    writer.close()
    path = folder / "run/rank-0/000000.log"
    whole = path.read_bytes()
    frames = [one for one in scan(whole[PREAMBLE.size :], PREAMBLE.size) if isinstance(one, Frame)]
    found = next(one for one in frames if one.kind == FrameKind.INDEX)
    foot = next(one for one in frames if one.kind == FrameKind.FOOTER)

    def read(data: bytes) -> None:
        if data[:1] == b"i":
            body = whole[: found.offset] + pack(FrameKind.INDEX, data[1:], found.sequence)
            path.write_bytes(body + whole[foot.offset :])
        else:
            path.write_bytes(whole[: foot.offset] + pack(FrameKind.FOOTER, data[1:], foot.sequence))
        _read_whole(folder / "run")

    return Prepared(
        [b"i" + bytes(found.payload), b"f" + bytes(foot.payload)], read, [b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff"]
    )


def tensors(folder: Path) -> Prepared:
    path = folder / "step-1.safetensors"
    kept.write(path, 1, {0: np.arange(6.0), 1: np.zeros((2, 2), np.complex64)}, {0: "bfloat16"})

    def read(data: bytes) -> None:
        path.write_bytes(data)
        for tensor in (0, 1, 2):
            kept.read(path, tensor)

    return Prepared([path.read_bytes()], read, [b'"dtype":"F64"', b'"I8"', b'"BF16"', b"complex64", b'"data_offsets"'])


def linked(folder: Path) -> Prepared:
    """Places in other files, read in the cache alone."""
    import os

    os.environ["TENSIGHT_CACHE"] = str(folder)
    place = links.dumps_folder() / "x"
    place.mkdir(parents=True)
    values = folder / "values.bin"
    values.write_bytes(bytes(64))
    path = place / "step-1.safetensors"
    links.write(
        path, {0: links.Link(str(values), 8, "float32", "<f4", (2, 3)), 1: links.Link(str(values), 0, "bool", "?", ())}
    )
    target = links.beside(path)

    def read(data: bytes) -> None:
        target.write_bytes(data)
        for tensor in (0, 1):
            links.read(path, tensor)

    return Prepared(
        [target.read_bytes()], read, [b"\xa3<f8", b"\xa1O", b"\xa3<U9", b"\xd3\xff\xff\xff\xff\xff\xff\xff\xff"]
    )


def graph(folder: Path) -> Prepared:
    nodes = [GraphNode("relu", 0), GraphNode("add", 1, inputs=(0,), stack=0), GraphNode("back", 0, forward=0)]
    made = Graph(
        "g",
        0,
        scopes=(Scope("net", ""), Scope("net", "fc")),
        frames=(StackFrame("a.py", 1),),
        stacks=((0,),),
        nodes=tuple(nodes),
    )
    info = graphs.write(folder, made, 1)
    path = folder / info.file
    plain = encode(made)

    def read(data: bytes) -> None:
        path.write_bytes(zlib.compress(data, 1))
        graphs.read(folder, info)

    return Prepared([plain], read)


def journals(folder: Path) -> Prepared:
    """What was printed, which data was looked at and what changed the training, with a right checksum."""
    printed = Print(
        1, 2.0, (PrintedValue("x"), PrintedValue("[1.]", (1,), "float32", 1.0)), Source("a.py", 3, "x", "f")
    )
    looked = BatchSamples(1, 2.0, ("[1, 3]",), (Sample(0, "image", "cat", png=b"abc"),), ("odd",))
    changed = AuditEntry(2.0, 1, "page", "watchpoint added", "TO on gradient:*")
    (folder / "rank-0").mkdir()
    kinds: dict[bytes, tuple[str, Callable[[Path], Any]]] = {
        b"p": (journal.PRINTS, prints.prints),
        b"s": (journal.SAMPLES, prints.samples),
        b"a": (journal.AUDIT, lambda folder: audit.lines(audit.audit(folder))),
    }

    def read(data: bytes) -> None:
        name, kept = kinds.get(data[:1], kinds[b"p"])
        (folder / "rank-0" / name).write_bytes(pack(journal.KIND, data[1:], 1) + data)
        kept(folder)

    return Prepared([b"p" + encode(printed), b"s" + encode(looked), b"a" + encode(changed)], read)


def beat(folder: Path) -> Prepared:
    one = beats.Beat(0, 2, 10, "a", 100.0, 12, 70.0, operation="all_reduce", stack=(beats.Frame("a.py", 1, "f"),))
    beats.write(folder, one)
    path = folder / "rank-0" / beats.BEAT

    def read(data: bytes) -> None:
        path.write_bytes(data)
        beats.table(beats.read_all(folder), 200.0)

    return Prepared([path.read_bytes()], read)


def server_file(folder: Path) -> Prepared:
    address.leave_beside(Address("127.0.0.1", 8765, "t"), folder)
    path = folder / address.BESIDE

    def read(data: bytes) -> None:
        path.write_bytes(data)
        found = address.find_beside(folder)
        if found is not None:
            assert found.at("x", 1, "y")

    return Prepared([path.read_bytes()], read)


PARSERS = [
    Parser("run-log", log),
    Parser("run-records", records),
    Parser("run-index", index),
    Parser("run-tensors", tensors),
    Parser("run-links", linked),
    Parser("run-graph", graph),
    Parser("run-journal", journals),
    Parser("run-beat", beat),
    Parser("run-server-file", server_file),
]
