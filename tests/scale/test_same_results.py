"""`check` and `compare` by many workers say exactly what one process says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tensight.compare import compare, values, weights
from tensight.dump import measuring
from tensight.dump.importing import import_dump
from tensight.runs import open_run, spreading
from tensight.workers import Workers, workers_on
from tests.scale import recordings

# one condition of the statistics, one with a history, one that needs the kept values themselves
POINTS = (
    "TO on *",
    "SP(times_gt=1.001, window=2) on *",
    "TR(range_percentage_gt=5, range_start_inclusive=0, range_end_inclusive=0.5) on *",
)


@pytest.fixture(scope="module")
def two() -> Iterator[Workers]:
    with workers_on("local", 2) as found:
        yield found


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (measuring, spreading, values):
        monkeypatch.setattr(module, "BATCH", 9000)
    monkeypatch.setattr(weights, "_BATCH", 9000)
    monkeypatch.setenv("TENSIGHT_CACHE", str(tmp_path / "cache"))


def contents(folder: Path) -> list[Any]:
    """All that a run says, without the moment at which it was made."""
    run = open_run(folder)
    steps = [(rank, list(reader.steps)) for rank, reader in run.readers.items()]
    tensors = [(rank, dict(reader.tensors)) for rank, reader in run.readers.items()]
    return [steps, tensors, list(run.hits), list(run.findings), run.lost, run.networks]


def test_a_dump_read_by_two_workers_becomes_the_same_run(two: Workers, tmp_path: Path) -> None:
    dump = recordings.dump(tmp_path / "dump")
    alone = import_dump(dump, tmp_path / "alone")
    shared = import_dump(dump, tmp_path / "shared", workers=two)
    assert alone._replace(folder=None) == shared._replace(folder=None)  # type: ignore[arg-type]
    assert repr(contents(tmp_path / "alone")) == repr(contents(tmp_path / "shared"))
    assert len(open_run(tmp_path / "shared").hits) > 0


def test_a_file_that_is_cut_off_is_the_same_trouble(two: Workers, tmp_path: Path) -> None:
    dump = recordings.dump(tmp_path / "dump")
    chosen = sorted(dump.rglob("*fc1*.npy"))[1]
    chosen.write_bytes(chosen.read_bytes()[:-100])
    alone = import_dump(dump, tmp_path / "alone")
    shared = import_dump(dump, tmp_path / "shared", workers=two)
    assert alone.troubles == shared.troubles != ()
    assert repr(contents(tmp_path / "alone")) == repr(contents(tmp_path / "shared"))


def test_hits_of_a_run_are_the_same_and_in_the_same_order(two: Workers, tmp_path: Path) -> None:
    run = open_run(recordings.run(tmp_path / "run", ranks=3))
    alone, shared = run.check(POINTS), run.check(POINTS, workers=two)
    assert list(alone) == list(shared)
    assert {hit.rank for hit in shared} == {0, 1, 2}
    assert {hit.condition for hit in shared if hit.error is None} >= {"TO", "SP", "TR"}
    assert list(run.check(POINTS, step=1)) == list(run.check(POINTS, step=1, workers=two))


def test_values_that_stay_in_a_dump_are_counted_by_workers(two: Workers, tmp_path: Path) -> None:
    run = open_run(recordings.dump(tmp_path / "dump"))
    alone, shared = run.check(POINTS[2]), run.check(POINTS[2], workers=two)
    assert len(shared) > 0
    assert list(alone) == list(shared)


def test_a_kept_file_that_is_gone_is_judged_by_what_was_recorded(two: Workers, tmp_path: Path) -> None:
    run = open_run(recordings.run(tmp_path / "run"))
    (tmp_path / "run" / "rank-0" / "tensors" / "step-2.safetensors").unlink()
    assert list(run.check(POINTS)) == list(run.check(POINTS, workers=two))


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_two_runs_compare_the_same(two: Workers, tmp_path: Path, ranks: int, shift: float) -> None:
    a = recordings.run(tmp_path / "a", ranks)
    b = recordings.run(tmp_path / "b", ranks, shift=shift)
    alone, shared = compare(a, b), compare(a, b, workers=two)
    assert msgspec.to_builtins(alone) == msgspec.to_builtins(shared)
    assert alone.verdict == ("different" if shift else "identical")


def test_runs_of_other_numbers_of_ranks_compare_the_same(two: Workers, tmp_path: Path) -> None:
    a, b = recordings.run(tmp_path / "a", 1), recordings.run(tmp_path / "b", 2)
    assert msgspec.to_builtins(compare(a, b)) == msgspec.to_builtins(compare(a, b, workers=two))


def test_two_checkpoints_compare_the_same(two: Workers, tmp_path: Path) -> None:
    a, b = recordings.checkpoints(tmp_path)
    alone, shared = compare(a, b), compare(a, b, workers=two)
    assert msgspec.to_builtins(alone) == msgspec.to_builtins(shared)
    assert [fault.tensor for fault in shared.faults] == ["net.c.weight", "net.d.weight", "net.e.weight"]


def command(*arguments: object, cache: Path, threads: str = "1") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tensight", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "TENSIGHT_CACHE": str(cache), "OMP_NUM_THREADS": threads},
    )


def test_the_commands_print_the_same_with_jobs(tmp_path: Path) -> None:
    dump = recordings.dump(tmp_path / "dump")
    alone = command("check", dump, "--json", "--watch", POINTS[2], cache=tmp_path / "one")
    shared = command("check", dump, "--json", "--watch", POINTS[2], "--jobs", 2, cache=tmp_path / "two")
    assert (shared.returncode, shared.stderr) == (0, "")
    assert alone.stdout == shared.stdout
    assert json.loads(shared.stdout)["hits"]


def test_a_comparison_does_not_depend_on_threads(tmp_path: Path) -> None:
    a = recordings.run(tmp_path / "a", 1, values=70_000)
    b = recordings.run(tmp_path / "b", 1, values=70_000, shift=1e-7)
    said = [
        command("compare", a, b, "--json", "--on", "local", "--jobs", 2, cache=tmp_path / "cache", threads="1"),
        command("compare", a, b, "--json", cache=tmp_path / "cache", threads="4"),
    ]
    assert [one.returncode for one in said] == [0, 0]
    assert said[0].stdout == said[1].stdout


def test_a_wrong_place_is_one_sentence(tmp_path: Path) -> None:
    said = command("check", recordings.run(tmp_path / "run", 1), "--on", "spark", cache=tmp_path)
    assert said.returncode == 2
    assert said.stderr == "tensight: 'spark' is no place to work: give local, ray or ray://host:port\n"
