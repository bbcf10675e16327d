"""Findings of several ranks as one list: a NaN stands once for all ranks it reaches, and a second one beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensight.records import Finding, RunEnd, StepRecord, Where
from tensight.runs.findings import calm_between, merge
from tensight.store import Reader, Writer
from tensight.testing.store_suite import run_info
from tests.reporting import report

PROGRAM = """
import os, tempfile, torch
import torch.distributed as dist, torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x, bad):
        x = torch.tanh(self.first(x))
        if bad == "before":
            x = x * float("nan")
        y = self.second(x)
        return torch.sqrt(y - 1e6) if bad == "behind" else y

def worker(rank, path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
    torch.manual_seed(rank)
    ddp = DDP(Net())
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    bad = {(0, 3): "before", (1, 9): "behind"}
    for step in range(12):
        loss = ddp(torch.randn(16, 4), bad.get((rank, step), "")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if not all(p.grad.isfinite().all() for p in ddp.parameters()):
            optimizer.zero_grad()  # this step is left out on all ranks
        optimizer.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(worker, args=(os.path.join(tempfile.mkdtemp(), "meet"),), nprocs=2)
"""


def test_two_ranks_that_each_have_a_fault_of_their_own_show_both(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    found = report(tmp_path, "train.py", timeout=280)["findings"]
    assert [(one["since_step"], one["rank"], one["where"]["module"]) for one in found] == [(3, 0, "second"), (9, 1, "")]


def bad(step: int, rank: int, module: str, category: str = "numeric-nonfinite") -> Finding:
    return Finding("nonfinite_value", category, "", 0.6, step, Where(module=module), "", rank=rank)


def said(*findings: Finding, calm: bool | None) -> list[int]:
    by_rank = {rank: [one for one in findings if one.rank == rank] for rank in (0, 1)}
    return [one.since_step for one in merge(by_rank, None if calm is None else lambda *_: calm)]


@pytest.mark.parametrize(("calm", "steps"), [(True, [3, 9]), (False, [3]), (None, [3])])
def test_a_later_one_is_a_cause_of_its_own_where_its_rank_was_calm_again(calm: bool | None, steps: list[int]) -> None:
    assert said(bad(3, 0, "a"), bad(9, 1, "b"), calm=calm) == steps
    assert said(bad(9, 0, "a"), bad(3, 1, "b"), calm=calm) == steps


def test_what_several_ranks_say_of_one_place_stands_once_by_the_first() -> None:
    assert said(bad(5, 0, "a"), bad(3, 1, "a"), calm=True) == [3]


def test_other_findings_are_not_folded() -> None:
    assert said(bad(3, 0, "a"), bad(9, 1, "b", category="gradient-flow"), calm=False) == [3, 9]


def test_a_rank_is_calm_when_the_loss_right_before_was_finite(tmp_path: Path) -> None:
    losses = [1.0, float("nan"), float("nan"), 0.5, None, 0.4]
    writer = Writer(tmp_path / "run", run_info())
    for step, loss in enumerate(losses):
        writer.step(StepRecord(step, 100.0 + step, 0.1, loss=loss))
    writer.end(RunEnd("finished", 200.0, 0, len(losses)))
    writer.close()
    calm = calm_between({0: Reader(tmp_path / "run", 0)})
    assert [before for before in range(2, 7) if calm(0, 1, before)] == [4, 6]
    assert not calm(0, 3, 4)  # nothing lies in between
