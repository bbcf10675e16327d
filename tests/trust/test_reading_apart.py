"""A child takes strangers' dumps, graphs and profiles apart: a file that ends it is left out, the rest is read."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

import tensight
from tensight.cli import main
from tensight.dump import anf, importing
from tensight.dump.foreign_files import import_files
from tensight.dump.readers import npy
from tensight.errors import FormatError, NameNotFound
from tensight.frameworks import mindspore_tables
from tensight.store import Reader
from tensight.workers.apart import Visit, read_apart, size_of
from tests.dump import makers

MEMORY = 256 << 20
GRAPH = anf.Anf()
GRAPH.add(anf.Node("Default/a/ReLU-op0", "ReLU"))


def crash() -> None:
    ctypes.string_at(0)  # reads where nothing is: the process dies of it


HARM: dict[str, Callable[[], object]] = {
    "fills": lambda: bytearray(MEMORY * 4),
    "hangs": lambda: time.sleep(600),
    "loops": lambda: [None for _ in iter(int, 1)],
    "crashes": crash,
    "aborts": os.abort,
    "fails": lambda: {}["x"],
}
SENTENCES = {
    "fills": "reading it takes more memory than a file of its size needs",
    "hangs": "reading it takes more than 8 seconds",
    "crashes": "it breaks what reads it",
    "aborts": "it breaks what reads it",
    "fails": "it breaks what reads it",
}


def read_all(path: Path, visit: Visit) -> tuple[list[str], dict[str, str]]:
    """The names of files, each of which does what its text says."""
    names = []
    for file in sorted(path.iterdir()):
        if file not in visit.without:
            visit.at(file, size_of(file))
            HARM.get(file.read_text(), str)()
            names.append(file.name)
    return names, {file.name: why for file, why in visit.without.items()}


def keeps_much(path: Path, visit: Visit) -> int:
    kept = []
    for number in range(6):
        visit.at(path / str(number), 1 << 20)
        kept.append(np.ones(MEMORY // 16, np.float64))  # half of what one file may take
    return len(kept)


def dies_at_once(path: Path, visit: Visit) -> None:
    os.abort()


def refuses(path: Path, visit: Visit) -> None:
    visit.at(path / "a")
    raise NameNotFound(f"there is no dump {path}")


def works_long(path: Path, visit: Visit) -> str:
    visit.at(path / "a")
    for _ in range(16):
        time.sleep(0.25)
        visit.goes_on()
    return "done"


@pytest.fixture(params=["copy", "fresh interpreter"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    # a fresh interpreter where threads are at work: a copy could hold their locks for ever
    monkeypatch.setattr(threading, "active_count", lambda: 1 if request.param == "copy" else 2)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return str(request.param)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children are copies of this process, and have what a test put into it."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)


@pytest.mark.parametrize("harm", SENTENCES)
def test_a_file_that_ends_the_child_is_left_out_and_the_rest_is_read(harm: str, way: str, tmp_path: Path) -> None:
    for name, text in {"a": "", "b": harm, "c": ""}.items():
        (tmp_path / name).write_text(text)
    # a fresh interpreter may take seconds to begin
    names, refused = read_apart(read_all, tmp_path, memory=MEMORY, seconds=8.0 if harm == "hangs" else 60.0)
    assert names == ["a", "c"]
    assert refused == {"b": SENTENCES[harm]}


def test_several_bad_files_are_each_left_out_until_they_are_too_many(copied: None, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}").write_text("aborts")
    (tmp_path / "good").write_text("")
    assert read_apart(read_all, tmp_path, most=3) == (["good"], dict.fromkeys("012", "it breaks what reads it"))
    with pytest.raises(FormatError, match="more than 2 of its files cannot be read safely"):
        read_apart(read_all, tmp_path, most=2)


def test_what_was_read_before_is_not_held_against_a_file(way: str, tmp_path: Path) -> None:
    assert read_apart(keeps_much, tmp_path, memory=MEMORY) == 6


def test_a_long_file_that_goes_on_is_waited_for(copied: None, tmp_path: Path) -> None:
    assert read_apart(works_long, tmp_path, seconds=3.0) == "done"


def test_errors_of_the_reader_come_as_they_are(way: str, tmp_path: Path) -> None:
    with pytest.raises(NameNotFound, match="there is no dump"):
        read_apart(refuses, tmp_path)


def test_what_dies_outside_of_any_file_is_refused_as_a_whole(way: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="is refused: it breaks what reads it"):
        read_apart(dies_at_once, tmp_path)


def test_nothing_is_left_behind(way: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("aborts")
    before = len(os.listdir("/proc/self/fd"))
    children = {child.pid for child in psutil.Process().children()}
    for _ in range(3):
        read_apart(read_all, tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
    assert {child.pid for child in psutil.Process().children()} <= children


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tensors and a graph."""
    monkeypatch.setenv("TENSIGHT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "dump"
    makers.npy(folder, "ReLU.Default_a_ReLU-op0.output.0", np.ones(4, np.float32))
    makers.npy(folder, "ReLU.Default_b_ReLU-op0.output.0", np.ones(4, np.float32))
    (folder / "rank_0/graphs").mkdir()
    (folder / "rank_0/graphs/ms_output_trace_code_graph_0.pb").write_bytes(GRAPH.encode())
    return folder


def hostile(monkeypatch: pytest.MonkeyPatch, module: object, name: str, word: str) -> None:
    """Let a parser crash on files with a word in their path."""
    parse = getattr(module, name)

    def parse_or_crash(path: Path, *args: object) -> object:
        if word in str(path):
            crash()
        return parse(path, *args)

    monkeypatch.setattr(module, name, parse_or_crash)


@pytest.mark.parametrize(
    ("module", "name", "word", "tensors", "graphs"),
    [(npy, "header", "Default_a_", ["b"], 1), (anf, "read", "graph_0.pb", ["a", "b"], 0)],
    ids=["tensor", "graph"],
)
def test_a_dump_with_a_file_that_crashes_its_parser_is_read_without_it(
    module: object, name: str, word: str, tensors: list[str], graphs: int, dump: Path, copied: None, monkeypatch
) -> None:
    hostile(monkeypatch, module, name, word)
    run = tensight.open(dump)
    assert sorted(tensor.node for tensor in run.tensors.values()) == tensors
    assert len(Reader(run.path).graphs) == graphs
    (lost,) = run.lost
    assert word in lost
    assert lost.endswith("is refused: it breaks what reads it")


def test_a_dump_of_msprobe_with_a_file_that_crashes_its_parser_is_read_without_it(
    tmp_path: Path, copied: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "dump/step0/rank0/dump_tensor_data"
    folder.mkdir(parents=True)
    facts = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 2.0, "Min": 1.0}
    for name in ("a", "b"):
        np.save(folder / f"{name}.npy", np.ones(2, np.float32))
    calls = {
        f"Module.{name}.ReLU.forward.0": {"output": [{**facts, "data_name": f"{name}.npy"}]} for name in ("a", "b")
    }
    (folder.parent / "dump.json").write_text(json.dumps({"framework": "pytorch", "data": calls}))
    hostile(monkeypatch, npy, "header", "a.npy")
    made = importing.import_dump(tmp_path / "dump", tmp_path / "run")
    assert made.tensors == 2, "its statistics are in dump.json, which is no worse for it"
    assert any("a.npy is refused: it breaks what reads it" in one for one in made.troubles)
    assert len(tensight.open(tmp_path / "run").lost) == len(made.troubles)


def test_graph_files_and_profiles_that_crash_their_parser_are_left_out(
    tmp_path: Path, copied: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (0, 1):
        (tmp_path / f"ms_output_after_opt_{number}.pb").write_bytes(GRAPH.encode())
    hostile(monkeypatch, anf, "read", "opt_0.pb")
    made = import_files(tmp_path, lambda: tmp_path / "run")
    assert made.operators == 1
    assert made.troubles == (f"{tmp_path}/ms_output_after_opt_0.pb is refused: it breaks what reads it",)
    with pytest.raises(FormatError, match=r"opt_0\.pb is refused: it breaks what reads it"):
        import_files(tmp_path / "ms_output_after_opt_0.pb", lambda: tmp_path / "other")
    profile = tmp_path / "profile"
    profile.mkdir()
    for number in (0, 1):
        (profile / f"cpu_op_detail_info_{number}.csv").write_text(
            "op_type,op_name,op_occurrences,op_total_time(ms)\nMatMul,a,2,1\n"
        )
    hostile(monkeypatch, mindspore_tables, "operators", "info_1.csv")
    made = import_files(profile, lambda: tmp_path / "profiled")
    assert made.operators == 1
    assert made.troubles == (f"{profile}/cpu_op_detail_info_1.csv is refused: it breaks what reads it",)


def test_statistics_without_an_end_of_line_do_not_take_the_rest_with_them(dump: Path, tmp_path: Path) -> None:
    """A real file that fills memory: one line of a gigabyte and a half, which takes no room on the disk."""
    statistics = dump / "rank_0/Net/0/1/statistic.csv"
    statistics.parent.mkdir()
    with statistics.open("wb") as file:
        file.write(b"Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape\n")
        file.truncate(3 << 29)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))

    for command in (["import", "--run-dir", str(tmp_path / "run")], ["check"]):
        done = subprocess.run(
            [sys.executable, "-m", "tensight", *command[:1], str(dump), *command[1:]],
            capture_output=True,
            text=True,
            timeout=280,
            preexec_fn=limited,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert "statistic.csv is refused: reading it takes more memory than a file of its size needs" in done.stderr
        assert done.stdout.startswith("2 tensors of 1 step" if command[0] == "import" else "0 hits")


def test_what_could_not_be_read_is_said_by_every_command_and_steers_no_terminal(
    dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = next(dump.rglob("*Default_a_*.npy"))
    next(dump.rglob("*Default_b_*.npy")).unlink()
    (good.parent / good.name.replace("Default_a_", "Default_\x1b[31m_")).write_text("nothing")
    sentence = r"Default_\x1b[31m_ReLU-op0.0.0.1700000000000000.output.0.DefaultFormat.Float32.npy is no .npy file"
    said = {}
    for command in ("import", "explain", "check", "compare"):
        words = [str(dump)] * (2 if command == "compare" else 1)
        main([command, *words, *(["--run-dir", str(tmp_path / "run")] if command == "import" else [])])
        said[command] = capsys.readouterr()
        shown = said[command].out if command == "explain" else said[command].err
        assert sentence in shown
        assert "\x1b" not in shown
    assert said["import"].out.startswith("1 tensor of 1 step and 1 rank (")
    assert "\nnot read: " in said["explain"].out
