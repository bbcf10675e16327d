"""Changes tried on a few steps: turns, several ranks, scripts that fail, a machine that is busy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensight.profiling import files
from tensight.session import trying
from tensight.session.program import Program
from tensight.session.trying import Attempt, Measured, try_changes
from tests.profiling.slow import PROGRAMS

PROGRAM = Program("train.py", ())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files.profile_file(tmp_path, 0).parent.mkdir()
    return tmp_path


def pretend(monkeypatch: pytest.MonkeyPatch, times: dict[str, list[Measured | None]]) -> list[Attempt]:
    """Attempts take the given times, one after the other; those that were made."""
    made: list[Attempt] = []

    def clocked(program: Program, attempt: Attempt, steps: int) -> Measured | None:
        made.append(attempt)
        return times[attempt.change].pop(0)

    monkeypatch.setattr(trying, "_clocked", clocked)
    return made


def test_everything_gets_two_turns_and_the_better_one_counts(monkeypatch: pytest.MonkeyPatch, folder: Path):
    times = {"": [Measured(0.4), Measured(0.2)], "fused": [Measured(0.1), Measured(0.3)]}
    made = pretend(monkeypatch, {**times})
    told: list[tuple[str, int, int]] = []
    (tried,) = try_changes(PROGRAM, folder, ["fused"], told=lambda *words: told.append(words))
    assert (tried.before, tried.after, tried.note) == (0.2, 0.1, "")
    assert told == [("as it is", 0, 4), ("fused", 1, 4), ("as it is", 2, 4), ("fused", 3, 4)]
    assert [attempt.change for attempt in made] == ["", "fused", "", "fused"]


def test_a_change_that_the_script_cannot_bear_is_said_and_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, folder: Path
):
    made = pretend(monkeypatch, {"": [Measured(0.2)] * 2, "compile": [None], "batch=2": [Measured(0.3)] * 2})
    broken, larger = try_changes(PROGRAM, folder, ["compile", "batch=2"])
    assert broken.gain == 0
    assert "could not be tried" in broken.note
    assert (larger.after, larger.note) == (0.15, "for the same number of samples")
    assert [attempt.change for attempt in made].count("compile") == 1


def test_a_script_that_fails_as_it_is_has_nothing_tried(monkeypatch: pytest.MonkeyPatch, folder: Path):
    made = pretend(monkeypatch, {"": [None], "fused": []})
    assert try_changes(PROGRAM, folder, ["fused"]) == []
    assert len(made) == 1


def test_times_of_a_busy_machine_are_marked(monkeypatch: pytest.MonkeyPatch, folder: Path):
    pretend(monkeypatch, {"": [Measured(0.2, 0.1)] * 2, "fused": [Measured(0.1, 0.4)] * 2})
    (tried,) = try_changes(PROGRAM, folder, ["fused"])
    assert tried.note == "not sure: the training had no processor 40 % of the time"


def test_other_ranks_do_what_the_first_says(monkeypatch: pytest.MonkeyPatch, folder: Path):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    first = pretend(monkeypatch, {"": [Measured(0.2)] * 2, "bucket=25": [Measured(0.1)] * 2})
    (tried,) = try_changes(PROGRAM, folder, ["bucket=25"])
    assert tried.gain == pytest.approx(0.5)
    monkeypatch.setenv("RANK", "1")
    second = pretend(monkeypatch, {"": [Measured(9.0)] * 2, "bucket=25": [None] * 2})
    assert try_changes(PROGRAM, folder, ["compile"]) == []  # whatever this rank would have liked to try
    assert second == first
    assert all(attempt.port for attempt in first)


def test_the_first_rank_may_have_nothing_to_try(monkeypatch: pytest.MonkeyPatch, folder: Path):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    made = pretend(monkeypatch, {})
    assert try_changes(PROGRAM, folder, []) == []
    monkeypatch.setenv("RANK", "1")
    assert try_changes(PROGRAM, folder, ["fused"]) == []
    assert made == []


def test_an_attempt_is_a_process_of_its_own():
    found = trying._clocked(Program(str(PROGRAMS / "optimizer_loop.py"), ()), Attempt("fused", 1), 3)
    assert found is not None
    assert found.seconds > 0
    assert trying._clocked(Program("none.py", ()), Attempt("", 1), 3) is None
