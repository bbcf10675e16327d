"""Chrome traces of any size, and files that are none."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from tensight.cli import main
from tensight.errors import FormatError, NameNotFound
from tensight.profiling.trace import events, summarise
from tests.profiling.terminal import in_a_terminal

INNER = {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 10, "dur": 30}
OUTER = {"ph": "X", "name": "aten::linear", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 0, "dur": 100}
STEP = {"ph": "X", "name": "ProfilerStep#3", "cat": "user_annotation", "pid": 1, "tid": 2, "ts": 0, "dur": 500}


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_a_trace_is_added_up(tmp_path: Path):
    path = write(
        tmp_path / "t.json", {"schemaVersion": 1, "traceEvents": [OUTER, INNER, {**INNER, "ts": 50}, STEP, {"ph": "M"}]}
    )
    found = summarise(path)
    assert found.events == 4
    outer, inner = found.rows["cpu_op", "aten::linear"], found.rows["cpu_op", "aten::mm"]
    assert (inner.calls, inner.seconds) == (2, pytest.approx(60e-6))
    assert outer.seconds == pytest.approx(100e-6)
    assert outer.own == pytest.approx(40e-6)
    assert found.steps == [("ProfilerStep#3", pytest.approx(500e-6))]
    assert found.seconds == pytest.approx(500e-6)


def test_a_bare_list_and_a_packed_file_are_traces_too(tmp_path: Path):
    assert summarise(write(tmp_path / "list.json", [OUTER])).events == 1
    packed = tmp_path / "t.json.gz"
    packed.write_bytes(gzip.compress(json.dumps({"traceEvents": [OUTER, INNER]}).encode()))
    assert summarise(packed).events == 2


def test_a_trace_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path):
    whole = json.dumps({"traceEvents": [OUTER, INNER, STEP]})
    path = tmp_path / "cut.json"
    path.write_text(whole[: whole.index("ProfilerStep")])
    assert [event["name"] for event in events(path)] == ["aten::linear", "aten::mm"]


@pytest.mark.parametrize("text", ["", "{}", "not a trace", '{"traceEvents": 3}', "\x00" * 100])
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(FormatError, match="no Chrome trace"):
        summarise(path)


def test_a_damaged_packed_file_is_refused(tmp_path: Path):
    path = tmp_path / "bad.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": [OUTER] * 1000}).encode())[:-20])
    with pytest.raises(FormatError, match="damaged"):
        summarise(path)


def test_a_trace_that_is_not_there_is_said(tmp_path: Path):
    with pytest.raises(NameNotFound):
        summarise(tmp_path / "none.json")


def test_names_and_numbers_may_hold_anything(tmp_path: Path):
    rows = [
        {**OUTER, "name": "\u202e\x1b[31m" * 200},
        {**INNER, "ts": "soon"},
        {"ph": "X"},
        7,
        None,
        {**INNER, "ts": "5.5"},
    ]
    found = summarise(write(tmp_path / "odd.json", {"traceEvents": rows}))
    assert found.events == 2


def test_an_event_without_an_end_does_not_spoil_the_sums(tmp_path: Path):
    odd = [{**INNER, "ts": "1e999"}, {**INNER, "dur": "nan"}, {**INNER, "dur": "-inf"}, {**INNER, "dur": -5}]
    found = summarise(write(tmp_path / "odd.json", [OUTER, *odd, INNER]))
    assert found.events == 2
    assert found.seconds == pytest.approx(100e-6)
    assert found.rows["cpu_op", "aten::linear"].own == pytest.approx(70e-6)


def test_a_long_event_is_not_tried_again_for_each_piece_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tried: list[int] = []
    raw_decode = json.JSONDecoder.raw_decode

    def counted(self: json.JSONDecoder, text: str, at: int = 0) -> object:
        tried.append(len(text) - at)
        return raw_decode(self, text, at)

    monkeypatch.setattr(json.JSONDecoder, "raw_decode", counted)
    path = write(tmp_path / "long.json", [{**OUTER, "args": {"note": "x" * (40 << 20)}}, INNER])
    assert summarise(path).events == 2
    assert sum(tried) < 4 * path.stat().st_size


def test_memory_stays_bounded_and_progress_is_told(tmp_path: Path):
    path = tmp_path / "large.json"
    line = json.dumps({**OUTER, "args": {"note": "x" * 400}})
    with path.open("w") as file:
        file.write('{"traceEvents": [')
        file.write(",\n".join([line] * 40_000))
        file.write("]}")
    size = path.stat().st_size
    assert size > 20e6
    told: list[tuple[int, int]] = []
    tracemalloc.start()
    try:
        found = summarise(path, lambda done, whole: told.append((done, whole)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.events == 40_000
    assert peak < size / 2
    assert told[-1] == (size, size)
    assert len(told) > 10


def test_a_terminal_sees_how_far_the_reading_is(tmp_path: Path):
    path = tmp_path / "large.json"
    line = json.dumps({**OUTER, "args": {"note": "x" * 400}})
    path.write_text('{"traceEvents": [' + ",\n".join([line] * 20_000) + "]}")
    code, shown = in_a_terminal("profile", "--trace", str(path), cwd=tmp_path)
    assert code == 0, shown
    assert "reading" in shown
    assert "100 %" in shown


def test_the_command_reads_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = write(tmp_path / "t.json", {"traceEvents": [OUTER, INNER, STEP]})
    main(["profile", "--trace", str(path), "--json"])
    assert json.loads(capsys.readouterr().out)["events"] == 3
    main(["profile", "--trace", str(path)])
    assert "aten::mm" in capsys.readouterr().out


def test_the_command_prints_any_name(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    path = write(tmp_path / "t.json", [{**OUTER, "name": "half \ud800 of a pair"}])
    for words in (["--json"], []):
        main(["profile", "--trace", str(path), *words])
        shown = capfd.readouterr().out
        assert (json.loads(shown)["rows"][0]["name"] if words else shown).count("half \\ud800 of a pair") == 1
