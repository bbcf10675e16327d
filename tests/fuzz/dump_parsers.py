"""Dumps of others: a file of each format, changed inside the folder it belongs to; graphs and records of protobuf."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import numpy as np

from tensight.compare import tfrecord
from tensight.dump import anf, graph_files, ir_text, profiler_files
from tensight.dump.graphs import record
from tensight.dump.measuring import measure
from tensight.dump.readers import npy, scan
from tensight.profiling import files, trace
from tensight.store import protobuf
from tensight.store.codec import encode
from tests.dump import makers
from tests.fuzz.trying import Parser, Prepared

GOLDEN = Path(__file__).parents[1] / "dump" / "golden"
COMPILED = Path(__file__).parents[1] / "mindspore" / "golden"
RECORDED = Path(__file__).parents[1] / "profiling" / "recorded"
VALUE = np.arange(6, dtype=np.float32).reshape(2, 3)
CSV = (
    "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,Count\n"
    'MatMul,Default/fc/MatMul-op0,0,0,17,output,0,24,Float32,"(2,3)",4.5,-1,6\n'
    "ReLU,Default/act/ReLU-op1,0,0,18,input,0,24,Float32,(),nan,-inf,6\n"
)


def _read_dump(root: Path) -> None:
    found, tensors = scan(root)
    for one in tensors:
        if one.raw is not None:
            assert one.raw.offset + one.raw.nbytes <= one.raw.file.stat().st_size
            measure(one.raw)
    assert all("\n" not in said for said in found.troubles)


def _in_place(root: Path, file: Path, more: list[bytes] | None = None, words: list[bytes] | None = None) -> Prepared:
    good = file.read_bytes()

    def read(data: bytes) -> None:
        file.write_bytes(data)
        _read_dump(root)

    return Prepared([good, *(more or [])], read, words or [])


def npy_dump(folder: Path) -> Prepared:
    file = makers.npy(folder / "dump", "ReLU.Default_act_ReLU-op0.output.0", VALUE)
    words = [
        b"'descr': '|O'",
        b"'<f4'",
        b"'|V999999999'",
        b"(4000000000000,)",
        b"(-1, 2)",
        b"True",
        b"\x93NUMPY\x03\x00",
    ]
    return _in_place(folder / "dump", file, words=words)


def npy_header(folder: Path) -> Prepared:
    file = folder / "x.npy"
    np.save(file, VALUE)
    good = file.read_bytes()

    def read(data: bytes) -> None:
        file.write_bytes(data)
        found = npy.header(file, len(data))
        assert found.offset + found.nbytes <= len(data)

    return Prepared([good], read, [b"'<f4'", b"'|O'", b"(4000000000000,)", b"(1,)*9999", b"{'descr':", b"lambda:0"])


def ascend_dump(folder: Path) -> Prepared:
    file = makers.ascend(folder / "dump", "MatMul.Default_fc_MatMul-op1", [VALUE], [VALUE])
    return _in_place(folder / "dump", file)


def bin_dump(folder: Path) -> Prepared:
    """A file of the first version is plain values: its name says what they are."""
    file = makers.bin_of_r11(folder / "dump", "Default/fc/MatMul-op0.output.0", VALUE)
    good = makers.bin_of_r11(folder / "dump", "Default/act/ReLU-op0.output.0", VALUE)
    corpus = [file.name.encode(), b"fc.weight_output_0_shape_2_3_Float32_DefaultFormat.bin"]

    def read(data: bytes) -> None:
        name = data.replace(b"/", b"|").replace(b"\0", b"|")[:255].decode("utf-8", "surrogateescape")
        path = file.with_name(name if name not in ("", ".", "..") else good.name)
        path.write_bytes(VALUE.tobytes())
        try:
            _read_dump(folder / "dump")
        finally:
            if path.name != good.name:
                path.unlink()

    file.unlink()
    return Prepared(corpus, read, [b"_shape_", b"_output_0_", b"999999999999999999_", b"Float32", b"Object", b".bin"])


def csv_dump(folder: Path) -> Prepared:
    place = folder / "dump/rank_0/Net/0/3"
    place.mkdir(parents=True)
    (place / "statistic.csv").write_text(CSV)
    return _in_place(folder / "dump", place / "statistic.csv", words=[b'"', b",,,,", b"\r", b"(1,2", b"BFloat16"])


def msprobe_dump(folder: Path) -> Prepared:
    place = folder / "dump/step1/rank0"
    shutil.copytree(GOLDEN / "msprobe-26.2-tensor/step1/proc1", place)
    words = [b'"data_name"', b'"Tensor"', b'"shape"', b'"../../x.pt"', b'"type"']
    return _in_place(folder / "dump", place / "dump.json", words=words)


def msprobe_tensor(folder: Path) -> Prepared:
    place = folder / "dump/step1/rank0"
    shutil.copytree(GOLDEN / "msprobe-26.2-tensor/step1/proc1", place)
    first, *others = sorted((place / "dump_tensor_data").glob("*.pt"))
    for other in others:  # each case reads the whole dump: one tensor is enough of it
        other.unlink()
    told = json.loads((place / "dump.json").read_text())
    told["data"] = {name: call for name, call in told["data"].items() if first.name in json.dumps(call)}
    (place / "dump.json").write_text(json.dumps(told))
    return _in_place(folder / "dump", first)


def msprobe_stacks(folder: Path) -> Prepared:
    place = folder / "dump/step1/rank0"
    shutil.copytree(GOLDEN / "msprobe-26.2-statistics/step1/proc1", place)
    return _in_place(folder / "dump", place / "stack.json", words=[b'"File a.py, line 1, in f, x"', b"File ", b", in "])


def file_name(folder: Path) -> Prepared:
    """The name of a file is the description of its tensor."""
    from tensight.dump.readers.mindspore_names import describe
    from tensight.dump.readers.mindspore_npy import parse_name

    corpus = [path.name for path in (GOLDEN / "mindspore-2.10").rglob("*.npy")][:8]
    corpus.append("Default--fc_output_0_shape_2_3_Float32_DefaultFormat.bin")

    def read(data: bytes) -> None:
        name = data.decode("utf-8", "surrogateescape")
        parts = parse_name(name)
        describe(name, "MatMul" if parts is None else parts.type, "output", 0, (), "float32", "")

    return Prepared([one.encode() for one in corpus], read, [b".npy", b".output.0.", b"DefaultFormat", b"Float32"])


def graph(folder: Path) -> Prepared:
    files = sorted((GOLDEN / "mindspore-2.10").rglob("*.pb"))[:2]
    return Prepared([one.read_bytes() for one in files], lambda data: anf.decode(data, "graph"))


def ir(folder: Path) -> Prepared:
    """The text of a compiled graph, as far as a run shows it."""
    pieces = []
    for name in ("24_execute_0139.ir.gz", "01_type_inference_0001.ir.gz"):
        lines = gzip.decompress((COMPILED / name).read_bytes()).splitlines(keepends=True)
        first = next(place for place, line in enumerate(lines) if line.startswith(b"subgraph @"))
        pieces.append(b"".join([*lines[:12], *lines[first : first + 60]]))

    def read(data: bytes) -> None:
        graph = ir_text.parse(data.decode("utf-8", "replace").splitlines(keepends=True), "graph")
        encode(graph_files.network_of(graph))
        encode(record("graph", 0, graph, "net", ""))

    words = [
        b"subgraph @",
        b"%para1_x",
        b"%0(y) = ",
        b"Return(%0)",
        b'"',
        b'\\"',
        b"# In file a.py:1, 2~3/x/",
        b": (",
        b" {",
    ]
    return Prepared(pieces, read, words)


def profiler(folder: Path) -> Prepared:
    """What MindSpore's profiler wrote: the table of operators, that of a device, and the trace beside them."""
    shutil.copytree(COMPILED / "profile", folder / "profile")
    table = folder / "profile/FRAMEWORK/cpu_op_detail_info_0.csv"
    timeline = folder / "profile/ASCEND_PROFILER_OUTPUT/trace_view.json"
    device = timeline.with_name("op_statistic.csv")
    rows = b"".join(table.read_bytes().splitlines(keepends=True)[:8])
    told = json.dumps(json.loads(timeline.read_bytes())[:12]).encode()
    device_rows = b"OP Type,Core Type,Count,Total Time(us)\nMatMul,AI_CORE,12,34.5\n"

    def read(data: bytes) -> None:
        kind, content = data[:1], data[1:]
        table.write_bytes(content if kind == b"t" else rows)
        device.write_bytes(content if kind == b"d" else device_rows)
        timeline.write_bytes(content if kind == b"j" else told)
        profiles, troubles = profiler_files.load(folder / "profile")
        for one, _ in profiles.values():
            files.write(folder, one)
        assert all("\n" not in said for said in troubles)

    words = [b"op_type", b"OP Type", b"nan", b"-1", b"1e308", b'"', b'"ts"', b'"ph": "X"']
    return Prepared([b"t" + rows, b"d" + device_rows, b"j" + told], read, words)


def wire(folder: Path) -> Prepared:
    """Protobuf itself; its users turn a ValueError or IndexError into a sentence."""
    good = protobuf.field(1, b"abc") + protobuf.number(2 << 3) + protobuf.number(300) + protobuf.field(3, b"x" * 200)

    def read(data: bytes) -> None:
        try:
            list(protobuf.fields(memoryview(data)))
            protobuf.varints(memoryview(data))
        except (ValueError, IndexError):
            pass

    return Prepared([good], read)


def record_file(folder: Path) -> Prepared:
    file = folder / "x.tfrecord"
    example = b"\n\x0e\n\x0c\n\x01x\x12\x07\x1a\x05\n\x03\x01\x02\x03"

    def read(data: bytes) -> None:
        tfrecord.example(data)
        file.write_bytes(_record(data))
        tfrecord.columns(file)

    return Prepared([example], read, [b"\x1a\x05", b"\x12\x07", b"\n\x03"])


def _record(data: bytes) -> bytes:
    length = len(data).to_bytes(8, "little")
    return length + tfrecord._masked(length).to_bytes(4, "little") + data + tfrecord._masked(data).to_bytes(4, "little")


TRACE = {
    "schemaVersion": 1,
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 2, "ts": 10.5, "dur": 3, "args": {"a": [1]}},
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        {"ph": "X", "cat": "user", "name": "ProfilerStep#3", "pid": "a", "tid": None, "ts": 1, "dur": 9},
    ],
}


def chrome_trace(folder: Path) -> Prepared:
    file = folder / "trace.json"

    def read(data: bytes) -> None:
        file.write_bytes(data)
        trace.summarise(file)

    good = json.dumps(TRACE).encode()
    bare = json.dumps(TRACE["traceEvents"]).encode()
    words = [b'"traceEvents"', b"[", b'"ts"', b'"ph": "X"', b'"pid": []', b"1" * 5000, b"Infinity", b"NaN"]
    return Prepared([good, bare, gzip.compress(good)], read, words)


def profile(folder: Path) -> Prepared:
    import msgspec

    from tensight.profiling.advice import RULES
    from tensight.profiling.reading import Reading
    from tensight.records.timing import Profile

    paths = sorted(RECORDED.glob("*.json"))[:4]
    corpus = [msgspec.msgpack.encode(msgspec.json.decode(path.read_bytes(), type=Profile)) for path in paths]
    file = folder / "profile.msgpack"

    def read(data: bytes) -> None:
        file.write_bytes(data)
        reading = Reading(files.read(file))
        assert reading.split
        assert RULES

    return Prepared(corpus, read)


PARSERS = [
    Parser("dump-npy", npy_dump),
    Parser("npy-header", npy_header),
    Parser("dump-ascend", ascend_dump),
    Parser("dump-bin", bin_dump),
    Parser("dump-csv", csv_dump),
    Parser("dump-msprobe", msprobe_dump),
    Parser("dump-msprobe-tensor", msprobe_tensor),
    Parser("dump-msprobe-stacks", msprobe_stacks),
    Parser("dump-file-name", file_name),
    Parser("dump-graph", graph),
    Parser("graph-ir", ir),
    Parser("profiler-tables", profiler),
    Parser("protobuf", wire),
    Parser("tfrecord", record_file),
    Parser("profiler-trace", chrome_trace),
    Parser("profile", profile),
]
