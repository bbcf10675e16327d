"""A training that does not get on says where it is; a rank that is gone is named by the others."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tensight.records import RunEnd
from tensight.runs import beats
from tensight.session.stalling import Stalling

LONG = 60.0


def wait_for(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + LONG
    while not true():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


class Bench:
    def __init__(self, folder: Path, *, ranks: int = 1, stall: float = 0.05, paused: bool = False) -> None:
        self.said: list[str] = []
        self.news: list[dict[str, object]] = []
        self.failed: list[str] = []
        self.recorder = SimpleNamespace(step=4, rank=0, failed=lambda where, error: self.failed.append(str(error)))
        self.stalling = Stalling(
            cast("Any", self.recorder),
            folder,
            self.said.append,
            ranks=lambda: ranks,
            paused=lambda: paused,
            notify=self.news.append,
            every=0.01,
            stall=stall,
        )
        self.stalling.started()

    def end(self) -> None:
        self.stalling.ended(RunEnd("finished", 0.0))
        assert self.failed == []


def test_a_stall_is_said_once_with_the_line_it_is_in(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    wait_for(lambda: bench.said)
    bench.end()
    assert len(bench.said) == 1
    assert "no step has ended for" in bench.said[0]
    assert "test_stalling.py:" in bench.said[0]
    assert bench.news[0]["what"] == "stall"


def test_the_stack_of_a_stalled_rank_can_be_read_by_anybody(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    def stack() -> Any:
        beat = beats.read(tmp_path, 0)
        return beat.stack if beat is not None and beat.stalled else ()

    wait_for(stack)
    names = [one.function for one in stack()]
    bench.end()
    assert "test_the_stack_of_a_stalled_rank_can_be_read_by_anybody" in names
    beat = beats.read(tmp_path, 0)
    assert beat is not None
    assert beat.ended
    assert not beat.gone(time.time())


def test_what_a_rank_was_in_when_it_gave_up_stays_and_one_that_got_on_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tensight.session.stalling.LOOK", 0.02)
    stuck = Bench(tmp_path / "stuck", stall=LONG)  # a collective may give up long before anybody calls it a stall
    wait_for(lambda: (beat := beats.read(tmp_path / "stuck", 0)) is not None and beat.operation)
    stuck.end()
    beat = beats.read(tmp_path / "stuck", 0)
    assert beat is not None
    assert beat.ended
    assert not beat.stalled
    assert "test_stalling.py" in beat.place
    assert stuck.said == []
    going = Bench(tmp_path / "going", stall=LONG)
    wait_for(lambda: (beat := beats.read(tmp_path / "going", 0)) is not None and beat.operation)
    going.recorder.step += 1
    going.end()
    beat = beats.read(tmp_path / "going", 0)
    assert beat is not None
    assert beat.operation == ""


def test_a_training_that_gets_on_or_is_paused_says_nothing(tmp_path: Path) -> None:
    paused = Bench(tmp_path / "paused", paused=True)
    going = Bench(tmp_path / "going", stall=LONG)
    for _ in range(20):
        going.recorder.step += 1
        before = beats.read(tmp_path / "paused", 0)
        wait_for(lambda before=before: beats.read(tmp_path / "paused", 0) not in (None, before))
    paused.end()
    going.end()
    assert paused.said == []
    assert going.said == []


def test_a_rank_that_is_gone_is_named_once_with_what_it_was_in(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    now = time.time()
    beats.write(
        tmp_path,
        beats.Beat(1, 2, child, socket.gethostname(), now, 3, now, operation="dist.all_reduce", place="train.py:9"),
    )
    bench = Bench(tmp_path, ranks=2, stall=LONG)
    wait_for(lambda: bench.said)
    bench.end()
    assert bench.said == [
        f"rank 1 is lost: its process {child} on {socket.gethostname()} has ended without a word in step 3, last seen "
        "in dist.all_reduce (train.py:9)"
    ]


def test_a_folder_that_only_looks_like_a_ranks_is_passed_over(tmp_path: Path) -> None:
    for name in ("rank-10", "rank-2", "rank-x"):
        (tmp_path / name).mkdir()
        beat = beats.Beat(int(name[5:]) if name[5:].isdecimal() else 0, 11, 1, "here", 1.0, 0, 1.0)
        (tmp_path / name / beats.BEAT).write_bytes(msgspec.json.encode(beat))
    assert [one.rank for one in beats.read_all(tmp_path)] == [2, 10]
