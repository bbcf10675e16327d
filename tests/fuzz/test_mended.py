"""What fuzzing has found, each as the input that found it."""

from __future__ import annotations

import gzip
import json
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tensight.compare.checkpoints import mindspore_file, pickles, safetensors_file, torch_file
from tensight.control import address
from tensight.dump import graph_files, ir_text, profiler_files
from tensight.dump.choosing import Kernels
from tensight.dump.readers import npy, scan
from tensight.dump.readers.msprobe import _user_line
from tensight.errors import CheckpointError, DamagedError, FormatError, SpecError, UsageError
from tensight.frameworks import mindspore_tables
from tensight.profiling import files, trace
from tensight.records import GraphInfo, Source, patterns
from tensight.runs import beats, prints, selecting
from tensight.server.library import Library
from tensight.store import Reader, Writer, graphs, journal, links, protobuf
from tensight.store.frame import PREAMBLE, Frame, FrameKind, pack
from tensight.store.frame import scan as frames_of
from tensight.testing.store_suite import run_info, sample_step
from tensight.tuning import config as tuning
from tensight.watchpoints import spec
from tests.dump import makers
from tests.fuzz.server_parsers import Asked

NO_TEXT = b"\xa2\xff\xfe"  # a msgpack string that is no UTF-8


def test_text_that_is_no_utf_8_in_a_profile_a_graph_and_a_beat_is_damage(tmp_path: Path) -> None:
    (tmp_path / "profile.msgpack").write_bytes(b"\x81\xa9framework" + NO_TEXT)
    with pytest.raises(DamagedError, match="cannot be read as a profile"):
        files.read(tmp_path / "profile.msgpack")
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs/graph-0.bin").write_bytes(zlib.compress(b"\x82\xa4name" + NO_TEXT + b"\xa4step\x00"))
    with pytest.raises(DamagedError):
        graphs.read(tmp_path, GraphInfo("g", 0, 1, "graphs/graph-0.bin"))
    (tmp_path / "rank-0").mkdir()
    (tmp_path / "rank-0" / beats.BEAT).write_bytes(b'{"rank":0,"host":"\xff"}')
    with pytest.raises(FormatError):
        beats.read(tmp_path, 0)


def test_an_address_left_in_no_utf_8_is_no_address(tmp_path: Path) -> None:
    (tmp_path / address.BESIDE).write_bytes(b'{"host":"127.\xff","port":8765,"token":"t"}')
    assert address.find_beside(tmp_path) is None


def test_a_record_of_the_log_in_no_utf_8_is_damage_and_the_rest_is_read(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "run", run_info())
    writer.step(sample_step(0))
    writer.close()
    with (tmp_path / "run/rank-0/000000.log").open("ab") as file:
        file.write(pack(FrameKind.NETWORK, b"\x81\xa4name" + NO_TEXT, 99))
    reader = Reader(tmp_path / "run")
    assert list(reader.steps.numbers) == [0]
    assert "cannot be understood" in str(reader.damage[0])


def test_a_journal_with_another_record_in_it_is_damage(tmp_path: Path) -> None:
    (tmp_path / "rank-0").mkdir()
    (tmp_path / "rank-0" / journal.PRINTS).write_bytes(pack(journal.KIND, b"\x80", 1))
    with pytest.raises(DamagedError, match="damaged at byte 0"):
        prints.prints(tmp_path)


def indexed(folder: Path) -> tuple[Path, bytes, Frame, Frame]:
    """A closed segment: its file, its bytes, its index and its footer."""
    writer = Writer(folder, run_info(), segment_bytes=4096)
    for step in range(30):
        writer.step(sample_step(step))
    writer.close()
    path = folder / "rank-0/000000.log"
    data = path.read_bytes()
    found = {one.kind: one for one in frames_of(data[PREAMBLE.size :], PREAMBLE.size) if isinstance(one, Frame)}
    return path, data, found[FrameKind.INDEX], found[FrameKind.FOOTER]


@pytest.mark.parametrize("place", [2**63, 2**64 - 1, 10**9])
def test_a_footer_that_points_beyond_the_file_costs_nothing(place: int, tmp_path: Path) -> None:
    path, data, _, footer = indexed(tmp_path / "run")
    payload = b"\xcf" + place.to_bytes(8, "big")
    path.write_bytes(data[: footer.offset] + pack(FrameKind.FOOTER, payload, footer.sequence))
    assert list(Reader(tmp_path / "run").steps.numbers) == list(range(30))


@pytest.mark.parametrize(("offset", "size"), [(-1, 10), (30, 4 * 10**12), (30, 0), (30, -5)])
def test_an_index_that_claims_what_no_file_has_costs_nothing(offset: int, size: int, tmp_path: Path) -> None:
    path, data, index, footer = indexed(tmp_path / "run")
    rows: list[Any] = msgspec.msgpack.decode(index.payload)
    rows[0][2], rows[0][3] = offset, size
    changed = pack(FrameKind.INDEX, msgspec.msgpack.encode(rows), index.sequence)
    path.write_bytes(data[: index.offset] + changed + data[footer.offset :])
    reader = Reader(tmp_path / "run")
    assert reader.steps.at(0).step == 0


@pytest.mark.parametrize(
    "link",
    [
        links.Link("a\0b", 0, "float32", "<f4", (2,)),
        links.Link("values.bin", 0, "float32", "<f%", (2,)),
        links.Link("values.bin", 0, "float32", "|O", (2,)),
        links.Link("values.bin", -8, "float32", "<f4", (2,)),
        links.Link("values.bin", 0, "float32", "<f4", (-1, 2)),
        links.Link("values.bin", 0, "float32", "0f4", (2, 3)),
        links.Link("values.bin", 0, "float32", ",f4", (2, 3)),
        links.Link("a\nb", 0, "float32", "<f4", (2,)),
    ],
)
def test_a_place_that_is_none_is_one_sentence(
    link: links.Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSIGHT_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "values.bin").write_bytes(bytes(64))
    place = links.dumps_folder() / "x"
    place.mkdir(parents=True)
    links.write(place / "step-1.safetensors", {0: link})
    with pytest.raises(DamagedError) as caught:
        links.read(place / "step-1.safetensors", 0)
    assert "\n" not in str(caught.value)


def test_a_trace_whose_packing_is_damaged_or_whose_process_is_a_list(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(json.dumps({"traceEvents": [{"ph": "X", "ts": 1}] * 50}).encode()))
    packed[12:40] = bytes(28)
    (tmp_path / "bad.gz").write_bytes(bytes(packed))
    with pytest.raises(FormatError, match="the packed file is damaged"):
        trace.summarise(tmp_path / "bad.gz")
    (tmp_path / "odd.json").write_text(json.dumps([{"ph": "X", "ts": 1, "dur": 2, "pid": [1], "tid": {}}]))
    assert trace.summarise(tmp_path / "odd.json").events == 1


def test_an_event_at_a_time_that_no_number_holds_is_passed_over(tmp_path: Path) -> None:
    late = '{"ph": "X", "ts": 1' + "0" * 400 + '}, {"ph": "X", "ts": 1, "dur": 2}'
    (tmp_path / "x.json").write_text(f"[{late}]")
    assert trace.summarise(tmp_path / "x.json").events == 1
    assert len(profiler_files.spans_of(tmp_path / "x.json")) == 1


@pytest.mark.parametrize("calls", ["9999999999999999999999", "-1"])
def test_an_operator_called_more_often_than_can_be_counted_is_damage(calls: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"op_type,op_name,op_occurrences,op_total_time(ms)\nMatMul,m,{calls},1.0\n")
    with pytest.raises(FormatError, match="is called"):
        mindspore_tables.operators(tmp_path / "t.csv")


MANY = 300_000  # read again from each place, such a line takes hours


@pytest.mark.parametrize(
    "line",
    [
        "subgraph @" + "(" * MANY + ")" * MANY,
        "%0(x) = A(" + '\\"' * MANY,
        "%0(x) = A()\n# " + "In file a:1/" * MANY + "x",
    ],
    ids=["brackets", "quotes", "places"],
)
def test_a_long_line_of_a_compiled_graph_is_read_once(line: str) -> None:
    head = ["subgraph @net() {", "  %0(y) = ReLU(%para1_x)"]
    assert ir_text.parse([*head, *line.splitlines()], "x").nodes


def test_a_long_line_of_a_stack_is_read_once() -> None:
    assert _user_line(["File " * MANY, "File a.py, line 3, in f"]) == Source("a.py", 3, "", "f")


def test_a_parameter_larger_than_any_has_no_such_length() -> None:
    text = ["%para1_w: <Ref[Tensor[Float32]], (9" + "9" * 5000 + ", 2), is_parameter>", "subgraph @net() {"]
    graph = ir_text.parse([*text, "  %0(y) = ReLU(%para1_w)"], "x")
    assert graph_files.network_of(graph).parameters[0].shape == (2,)


def test_a_name_of_several_lines_in_a_checkpoint_of_mindspore_is_one_sentence(tmp_path: Path) -> None:
    entry = protobuf.field(1, b"a\nb") + protobuf.field(3, b"")
    (tmp_path / "x.ckpt").write_bytes(protobuf.field(1, entry))
    with pytest.raises(CheckpointError, match="is a map parameter") as caught:
        mindspore_file.read(tmp_path / "x.ckpt")
    assert "\n" not in str(caught.value)


def test_a_pattern_in_bad_style_warns_nobody() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert Kernels.parse(["name-regex([[a])"]).match("a", "MatMul")
        tuning.parse({"command": "x {a}", "parameters": {"a": "1..2"}, "pattern": "[[a]"})
    assert said == []


@pytest.fixture
def usual_depth() -> Iterator[None]:
    """Libraries that were imported before may allow more."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(" * 3000 + ")" * 3000, "nested too deeply"),
        ("a{99999999999}", "repetition number is too large"),
        ("(", "missing \\)"),
    ],
)
def test_a_pattern_that_cannot_be_compiled_gets_one_sentence_wherever_it_is_written(
    pattern: str, why: str, tmp_path: Path, usual_depth: None
) -> None:
    reader = Reader(Writer(tmp_path / "run", run_info()).folder)
    search = {"command": "x {a}", "parameters": {"a": "1..2"}, "pattern": pattern}
    for ask in (
        lambda: tuning.parse(search),
        lambda: Kernels.parse([f"name-regex({pattern})"]),
        lambda: selecting.select([reader], pattern, regex=True),
        lambda: patterns.compiled(pattern),
    ):
        with pytest.raises(UsageError, match=why) as caught:
            ask()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 250


def test_a_profile_in_a_folder_that_is_no_rank_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "rank-x").mkdir()
    (tmp_path / "rank-x" / files.PROFILE).write_bytes(b"")
    assert files.profiles(tmp_path) == []


def test_a_number_in_place_of_a_tensor_in_a_dump_of_ascend_is_said(tmp_path: Path) -> None:
    value = np.zeros((2, 3), np.float32)
    file = makers.ascend(tmp_path, "MatMul.Default_fc_MatMul-op1", [value], [value])
    data = file.read_bytes()
    head = b"\x20\x05" + data[8 + 2 :]  # field 4, the inputs, as a number
    file.write_bytes((24).to_bytes(8, "little") + head)
    with pytest.raises(FormatError, match=r"is a number and not a tensor|cannot be read"):
        scan(tmp_path)


def test_a_pickle_that_doubles_a_name_again_and_again_is_refused_in_little_memory() -> None:
    doubling = b"\x80\x04\x8c\x04abcd" + b"22\x93" * 60 + b"."  # copy twice, join the copies to a name
    with pytest.raises(CheckpointError, match="a name is none"):
        pickles.load(doubling, "x.pt")


def test_a_refused_name_of_several_lines_is_one_sentence() -> None:
    with pytest.raises(CheckpointError) as caught:
        pickles.load(b"\x80\x04\x8c\x05num\npy\x8c\x03sys\x93)R.".replace(b"\x05num\npy", b"\x06num\npy"), "x.pt")
    assert "\n" not in str(caught.value)


def test_a_header_in_bad_style_warns_nobody(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1if 1else 2,), }"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(DamagedError):
            npy.header(path, path.stat().st_size)
    assert said == []


def test_an_address_with_bytes_that_no_address_has_is_refused(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    asked.run(asked.http("GET", b"/api/runs/?a\x9c", b""))  # an answer of 500 would be raised here
    asked.loop.close()


def test_a_training_that_names_no_path_is_refused() -> None:
    with pytest.raises(UsageError, match="is no folder of a run"):
        Library().add(Path("/tmp/a\0b"))


def test_a_search_of_brackets_within_brackets_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    (tmp_path / "tune.yaml").write_text("command: " + "[" * 2000)
    with pytest.raises(UsageError, match="brackets more than 100 deep"):
        tuning.load(tmp_path / "tune.yaml")


def test_a_name_of_a_watchpoint_that_is_no_text_is_refused_in_one_line() -> None:
    with pytest.raises(SpecError, match="is not a quoted text") as refused:
        spec.parse('TO on weight:* name="a\n\x1b[31m \\q b"', 1)
    assert "\n" not in str(refused.value)
    assert "\x1b" not in str(refused.value)


def test_sizes_that_are_endless_and_names_of_several_lines_in_checkpoints_are_one_sentence(tmp_path: Path) -> None:
    header = b'{"w": {"dtype": "F32", "shape": [1e999], "data_offsets": [0, 4]}}'
    file = tmp_path / "x.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(CheckpointError, match="its header cannot be read"):
        safetensors_file.read(file)
    with zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a\nb\x1b[2J/data.pkl", b"")
    with pytest.raises(CheckpointError) as refused:
        torch_file.read(tmp_path / "x.pt")
    assert str(refused.value).isprintable()
