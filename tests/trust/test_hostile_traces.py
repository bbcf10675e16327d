"""`tensight profile --trace` on a stranger's file: a child takes it apart, and one sentence says what is wrong."""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tensight.errors import FormatError
from tensight.profiling import trace
from tensight.profiling.trace import summarise, summarise_apart
from tensight.workers import apart
from tensight.workers.apart import Visit, read_apart

MEMORY = 512 << 20  # bytes of the whole command
EVENT = {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 10, "dur": 30}


def sparse(path: Path, text: bytes) -> None:
    """A file of a gigabyte and a half that takes no room on the disk."""
    with path.open("wb") as file:
        file.write(text)
        file.truncate(3 << 29)


def huge(path: Path) -> None:
    sparse(path, b"{")


def huge_event(path: Path) -> None:
    sparse(path, b'[{"name": "')


def nested(path: Path) -> None:
    path.write_text('{"traceEvents": [' + '{"a":' * 100_000)


def nested_lists(path: Path) -> None:
    path.write_text("[" * 2_000_000)


def long_number(path: Path) -> None:
    path.write_text('[{"ph": "X", "ts": ' + "1" * 5000 + "}]")


def wrong_types(path: Path) -> None:
    events = [7, "x", None, [[]], {"ph": []}, {**EVENT, "ts": {}}, {**EVENT, "ts": [1]}, {**EVENT, "dur": None}]
    path.write_text(json.dumps({"traceEvents": events}))


def no_list(path: Path) -> None:
    path.write_text('{"traceEvents": {"a": 1}}')


def endless(path: Path) -> None:
    path.write_text('[{"ph": "X", "ts": 1e999, "dur": 1}, {"ph": "X", "ts": NaN, "dur": -Infinity}]')


def bomb(path: Path) -> None:
    with gzip.open(path, "wb") as file:
        file.write(b'{"traceEvents": [')
        for _ in range(300):
            file.write(b" " * (1 << 20))


def cut_bomb(path: Path) -> None:
    bomb(path)
    os.truncate(path, path.stat().st_size // 2)


def cut_pack(path: Path) -> None:
    path.write_bytes(gzip.compress(json.dumps([EVENT] * 1000).encode())[:-20])


def fills_memory(path: Path) -> None:
    """Thirty kilobytes that become ten million objects."""
    with gzip.open(path, "wb") as file:
        file.write(b'[{"a": [' + b"{}," * 10_000_000 + b"{}]}]")


def pipe(path: Path) -> None:
    os.mkfifo(path)


SENTENCES: dict[Callable[[Path], None], str] = {
    huge: "is no Chrome trace: it has no list of traceEvents",
    huge_event: "an event is longer than any event can be",
    nested: "an event is nested too deeply",
    nested_lists: "an event is nested too deeply",
    long_number: "an event holds a number that is too long",
    wrong_types: "holds no events with a duration; is it a Chrome trace?",
    no_list: "is no Chrome trace: it has no list of traceEvents",
    endless: "holds no events with a duration; is it a Chrome trace?",
    bomb: "is refused, since it unpacks to more than 33,554,432 bytes",
    cut_bomb: "is refused, since it unpacks to more than 33,554,432 bytes",
    cut_pack: "the packed file is damaged (",
    fills_memory: "is refused: reading it takes more memory than a file of its size needs",
    Path.mkdir: "there is no such trace",
    pipe: "there is no such trace",
}


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


@pytest.mark.parametrize("make", SENTENCES, ids=lambda make: make.__name__)
def test_the_command_says_one_sentence(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    make(path)
    done = subprocess.run(
        [sys.executable, "-m", "tensight", "profile", "--trace", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limited,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"tensight: {path}")
    assert SENTENCES[make] in line


@pytest.fixture(params=["copy", "fresh interpreter"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(threading, "active_count", lambda: 1 if request.param == "copy" else 2)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return str(request.param)


def test_a_child_makes_the_same_of_a_good_trace(way: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([EVENT, {**EVENT, "name": "ProfilerStep#1"}, {**EVENT, "pid": 2}]))
    told: list[tuple[int, int]] = []
    assert summarise_apart(path, lambda *now: told.append(now)) == summarise(path)
    assert told[-1] == (path.stat().st_size,) * 2


def test_a_trace_that_kills_its_parser_kills_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(trace, "events", lambda *_: os.abort())
    with pytest.raises(FormatError, match=r"trace\.json is refused: it breaks what reads it"):
        summarise_apart(tmp_path / "trace.json")


def reads_slowly(path: Path, visit: Visit) -> str:
    visit.at(path, 100)
    for done in (10, 60):
        visit.goes_on(done)
        time.sleep(1.0)
    return "done"


def test_a_child_tells_how_much_it_has_read(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "_TICK", 0.05)
    told: list[tuple[int, int]] = []
    assert read_apart(reads_slowly, tmp_path, progress=lambda *now: told.append(now)) == "done"
    assert {(10, 100), (60, 100)} <= set(told)
