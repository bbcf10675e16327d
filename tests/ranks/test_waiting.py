"""Ranks that wait for each other in different places, and what is said of them when the run is read."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tensight.records import Event, Part, RunEnd, Source, StepRecord
from tensight.runs import beats, open_run
from tensight.store import Writer
from tensight.testing.store_suite import run_info

LOOP = (20, 21, 24)  # lines that a step is made of
BACKWARD, BEHIND = "torch.autograd.graph._engine_run_backward", "torch.distributed.distributed_c10d.broadcast"


def record(
    folder: Path, rank: int, *, crash: dict[str, Any] | None = None, end: RunEnd | None = None, **beat: Any
) -> None:
    writer = Writer(folder, run_info(rank, 2))
    writer.part(Part("loader", "DataLoader", "DataLoader", {"batches": beat.pop("batches", None)}))
    events = tuple(Event("loss", source=Source("train.py", line, "")) for line in LOOP)
    for step in range(5):
        writer.step(StepRecord(step, 100.0 + step, 0.1, loss=1.0, events=events))
    if crash is not None:
        writer.crash(crash)
    writer.end(end or RunEnd("failed", 200.0, 1, 5))
    writer.close()
    if beat:
        now = time.time()
        beats.write(folder, beats.Beat(rank, 2, os.getpid(), socket.gethostname(), now, 5, now - 9, **beat))


def found(folder: Path) -> list[tuple[str, int | None, int]]:
    return [(one.fault, one.where.line, one.since_step) for one in open_run(folder).findings]


def gave_up(line: int, error: str = "RuntimeError: Timed out waiting 15000ms for recv") -> dict[str, Any]:
    return {"error": error, "where": {"file": "train.py", "line": line, "code": "loss.backward()"}}


def test_a_rank_that_has_left_its_loop_has_made_fewer_steps(tmp_path: Path) -> None:
    record(tmp_path, 0, operation=BACKWARD, place="train.py:22", code="loss.backward()")
    record(tmp_path, 1, operation=BEHIND, place="train.py:32", code="dist.broadcast(ref, src=0)")
    assert found(tmp_path) == [("unequal_steps", 22, 5)]
    (one,) = open_run(tmp_path).findings
    assert "rank 0 in loss.backward() (train.py:22); rank 1 in dist.broadcast(ref, src=0) (train.py:32)" in one.why
    assert "Rank 1 has left its training loop after 5 steps" in one.why


def test_a_rank_whose_collective_fails_while_another_has_ended_well(tmp_path: Path) -> None:
    record(tmp_path, 0, crash=gave_up(22, "RuntimeError: Connection closed by peer"))
    record(tmp_path, 1, end=RunEnd("finished", 200.0, 0, 5), batches=5)
    assert found(tmp_path) == [("unequal_steps", 22, 5)]


@pytest.mark.parametrize(
    ("batches", "fault"), [((6, 5), "unequal_steps"), ((6, 6), "collectives_out_of_order")], ids=["unequal", "equal"]
)
def test_two_places_inside_the_loop(batches: tuple[int, int], fault: str, tmp_path: Path) -> None:
    record(tmp_path, 0, crash=gave_up(21), batches=batches[0])
    record(tmp_path, 1, crash=gave_up(23), batches=batches[1])
    assert found(tmp_path) == [(fault, 21, 5)]


def test_ranks_that_wait_in_the_same_line_or_do_not_wait_are_left_alone(tmp_path: Path) -> None:
    for rank in (0, 1):  # a network that is down
        record(tmp_path / "same", rank, crash=gave_up(22))
    assert found(tmp_path / "same") == []
    record(tmp_path / "saving", 0, operation="torch.serialization.save", place="train.py:30")
    record(tmp_path / "saving", 1, operation=BEHIND, place="train.py:32")
    assert found(tmp_path / "saving") == []
    record(tmp_path / "failed", 0, crash=gave_up(22))
    record(tmp_path / "failed", 1, crash=gave_up(21, "ValueError: no such file"))  # the cause is said by its crash
    assert found(tmp_path / "failed") == []
