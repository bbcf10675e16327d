"""Real ranks under torchrun: paused, stepped and ended together; one that is killed is named.

That a pause may last longer than a collective waits is measured by benchmarks/pause_ranks.py.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tensight.runs import beats
from tensight.store import Reader
from tests.ranks.driven import LONG, Driven, driven


@pytest.mark.timeout(900)
def test_four_ranks_are_paused_and_stepped_together_and_one_that_is_killed_is_named(tmp_path: Path) -> None:
    patient = ("--monitor-interval=300",)  # the launcher itself would end the other ranks at once
    with driven(tmp_path, 4, "300", "0.005", launcher=patient) as training:
        training.running(4)
        for _ in range(3):  # a pause is where all ranks are behind the same step
            training.go_on(training.pause())
        step = training.pause()
        training.drive("step", count=3)
        training.until(lambda: training.steps() == [step + 3] * 4, "three steps further")
        assert training.paused() == step + 3
        training.go_on(step + 3)

        (tmp_path / "hold").touch()  # rank 1 does not get on, so the others do not either
        training.until(lambda: "no step has ended for" in "".join(training.printed), "said to be stalled")
        stalled = training.until(lambda: _stalled(training, "time.sleep(0.05)"), "shown as stalled")
        assert "train.py:" in str(stalled[0]["place"])
        assert [call["function"] for call in stalled[1]["stack"]] == ["<module>"]
        (tmp_path / "hold").unlink()

        training.pause()
        training.until(lambda: len(beats.read_all(tmp_path / "run")) == 4, "beats")
        (dead,) = [one for one in beats.read_all(tmp_path / "run") if one.rank == 1]
        os.kill(dead.pid, signal.SIGKILL)
        places = training.until(lambda: _gone(training), "named as gone")
        assert (places[1]["state"], places[1]["process"]) == ("gone", dead.pid)
        left = ["paused", "lost", "paused", "paused"]
        training.until(lambda: [one["state"] for one in training.control()["ranks"]] == left, "lost")
        training.until(lambda: "rank 1 is lost" in "".join(training.printed), "said in the terminal")
    for rank in (0, 2, 3):
        reader = Reader(tmp_path / "run", rank)
        assert reader.steps.numbers[-1] >= step + 3
        assert reader.steps.at(reader.steps.numbers[-1]).loss is not None


@pytest.mark.timeout(900)
def test_what_one_of_four_ranks_hits_pauses_all_and_they_end_behind_the_same_step(tmp_path: Path) -> None:
    watch = ("--watch", "TL(max_gt=-1000) on output:* after=20 at_most=1", "--on-hit", "pause", "--budget", "100")
    with driven(tmp_path, 4, "300", "0.005", options=watch) as training:
        training.until(lambda: training.control().get("state") == "paused", "paused by the hit")
        assert training.paused() >= 20
        assert "watchpoint" in training.control()["reason"]
        training.drive("terminate")
        assert training.process.wait(LONG) == 0
    ends = [Reader(tmp_path / "run", rank).end for rank in range(4)]
    assert [end.ended for end in ends if end is not None] == ["stopped"] * 4
    assert len({end.steps for end in ends if end is not None}) == 1


SPAWNING = """
import os, sys, time, torch
import torch.distributed as dist, torch.multiprocessing as mp

def worker(rank):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=2)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    while True:
        loss = net(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.005)

if __name__ == "__main__":
    mp.spawn(worker, nprocs=2)
"""


@pytest.mark.timeout(900)
def test_ranks_that_a_script_starts_itself_are_driven_by_its_page(tmp_path: Path) -> None:
    with driven(tmp_path, 0, script=SPAWNING) as training:
        training.running(2)
        training.go_on(training.pause())
        training.drive("terminate")
        assert training.process.wait(LONG) == 0
    assert len({len(Reader(tmp_path / "run", rank).steps) for rank in (0, 1)}) == 1
    assert not (tmp_path / "run" / "server.json").exists()


def _stalled(training: Driven, operation: str) -> Any:
    """Where the ranks are, once none gets on and the second is in this operation; on a busy machine it may be in
    another one before."""
    places = training.http.get("/api/runs/run/ranks").json()
    states = [one["state"] for one in places]
    return places if states == ["stalled"] * 4 and operation in places[1]["operation"] else None


def _gone(training: Driven) -> list[dict[str, object]] | None:
    places: list[dict[str, object]] = training.http.get("/api/runs/run/ranks").json()
    return places if any(one["state"] == "gone" for one in places) else None
