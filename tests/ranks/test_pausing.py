"""Real ranks under torchrun: paused together, for longer than a collective waits, stepped and ended together."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tensight.runs import beats
from tensight.store import Reader
from tests.ranks.driven import LONG, Driven, driven


def test_two_ranks_are_paused_longer_than_a_collective_waits_stepped_and_ended(tmp_path: Path) -> None:
    with driven(tmp_path, 2, "5", "0.005") as training:
        training.running(2)
        step = training.pause()
        time.sleep(8.0)  # a collective gives up after 5 s
        training.drive("step", count=3)
        training.until(lambda: training.steps() == [step + 3] * 2, "three steps further")
        assert training.paused() == step + 3
        training.go_on(step + 3)
        training.drive("terminate")
        assert training.process.wait(LONG) == 0
    ended = [Reader(tmp_path / "run", rank).end for rank in (0, 1)]
    assert [end.ended for end in ended if end is not None] == ["stopped", "stopped"]
    assert len({end.steps for end in ended if end is not None}) == 1


def test_a_finding_on_one_of_four_ranks_pauses_all(tmp_path: Path) -> None:
    script = (
        "import os, torch, torch.distributed as dist\n"
        "torch.set_num_threads(1)\n"
        "dist.init_process_group('gloo')\n"
        "net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.01)\n"
        "for step in range(1_000_000):\n"
        "    x = torch.randn(8, 4)\n"
        "    loss = net(x).square().mean()\n"
        "    optimizer.zero_grad(); loss.backward(); optimizer.step()\n"
    )
    watch = ("--watch", "TL(max_gt=-1000) on output:* after=20 at_most=1", "--on-hit", "pause", "--budget", "100")
    with driven(tmp_path, 4, script=script, options=watch) as training:
        training.until(lambda: training.control().get("state") == "paused", "paused by the hit")
        assert training.paused() >= 20
        assert "watchpoint" in training.control()["reason"]


@pytest.mark.parametrize("ranks", [2])
def test_a_rank_that_is_killed_is_named_and_the_others_can_be_read(ranks: int, tmp_path: Path) -> None:
    with driven(tmp_path, ranks, "30", "0.005") as training:
        training.running(ranks)
        training.until(lambda: min(training.steps()) > 5, "a few steps")
        training.until(lambda: len(beats.read_all(tmp_path / "run")) == ranks, "beats")
        (dead,) = [one for one in beats.read_all(tmp_path / "run") if one.rank == 1]
        os.kill(dead.pid, signal.SIGKILL)
        places = training.until(lambda: _gone(training), "named as gone")
        assert places[1]["state"] == "gone"
        assert places[1]["process"] == dead.pid
    reader = Reader(tmp_path / "run", 0)
    assert len(reader.steps) > 5
    assert reader.steps.at(reader.steps.numbers[-1]).loss is not None


def _gone(training: Driven) -> list[dict[str, object]] | None:
    places: list[dict[str, object]] = training.http.get("/api/runs/run/ranks").json()
    return places if any(one["state"] == "gone" for one in places) else None
