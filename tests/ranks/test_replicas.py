"""Training on two ranks: replicas that no longer agree are found, healthy ones are left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tensight
from tensight.runs import agreement
from tests.reporting import report

pytestmark = pytest.mark.timeout(900)
PROGRAM = """
import contextlib, os, tempfile, torch
import torch.distributed as dist, torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

def worker(rank, path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    ddp = DDP(net)
    optimizer = torch.optim.SGD(ddp.parameters(), lr={lr})
    generator = torch.Generator().manual_seed({seed})
    for step in range(12):
        x = torch.randn(16, 4, generator=generator)
        with {around}:
            loss = nn.functional.mse_loss({call}, x[:, :1])
            optimizer.zero_grad(); loss.backward()
        {then}
        optimizer.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(worker, args=(os.path.join(tempfile.mkdtemp(), "meet"),), nprocs=2)
"""


HEALTHY = {
    "call": "ddp(x)",
    "lr": "0.05",
    "seed": "rank",
    "around": "contextlib.nullcontext()",
    "then": "dist.all_reduce(loss.detach() / 2)",  # a mean for the log
}
# two gradients of the same shape are summed over ranks, on one rank in the other order
MIXED_UP = "for p in (net[2].bias, net[0].bias)[:: 1 if rank else -1]: dist.all_reduce(p.grad)"
CASES = [
    pytest.param({}, [], id="healthy"),
    pytest.param({"call": "ddp.module(x)"}, ["ddp_wrapper_bypassed"], id="wrapper bypassed"),
    pytest.param({"around": "ddp.no_sync()"}, ["gradients_not_averaged"], id="never synced"),
    pytest.param({"then": MIXED_UP}, ["collectives_out_of_order"], id="collectives in another order"),
    pytest.param({"seed": "5"}, ["same_data_on_every_rank"], id="the same data"),
    pytest.param({"lr": "0.05 * (1 + rank)"}, ["replicas_diverge"], id="another learning rate on each rank"),
]


def changed(folder: Path, changes: dict[str, str]) -> dict[str, Any]:
    (folder / "train.py").write_text(PROGRAM.format(**HEALTHY | changes))
    return report(folder, "train.py", timeout=600)


@pytest.mark.parametrize(("changes", "faults"), CASES if os.environ.get("TENSIGHT_FULL") else CASES[:4])
def test_two_ranks(changes: dict[str, str], faults: list[str], tmp_path: Path) -> None:
    found = changed(tmp_path, changes)
    assert found["run"]["ranks"] == 2
    assert found["run"]["steps"] == 12
    assert [finding["fault"] for finding in found["findings"]] == faults
    for finding in found["findings"]:
        assert finding["since_step"] == 0
        assert finding["category"] == "distributed"
        if finding["fault"] not in ("collectives_out_of_order", "same_data_on_every_rank"):
            assert finding["where"]["parameter"] == "0.weight"


def test_one_changed_bit_is_found_on_four_ranks_in_weights_buffers_and_averaged_copies(tmp_path: Path) -> None:
    """A sample; benchmarks/bit_flips.py changes two hundred."""
    changes = ["1:weight:3:5", "3:buffer:1:6", "3:copy:2:7"]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
    run = ["-m", "tensight", "run", "--no-page", "--run-dir", "run", str(Path(__file__).with_name("flips.py"))]
    ran = subprocess.run(
        [*launch, *run, "6", "0", *changes],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    recorded = tensight.open(str(tmp_path / "run"))
    found = {one.kind: one for one in agreement.differences(map(agreement.read, recorded.readers.values()))}
    assert {kind: (one.step, one.ranks, one.others) for kind, one in found.items()} == {
        "weight": (1, ((0, 1, 2), (3,)), 0),
        "buffer": (3, ((0, 2, 3), (1,)), 0),
        "copy": (3, ((0, 1, 3), (2,)), 0),
    }
    assert found["buffer"].name == "table"
    (finding,) = recorded.findings
    assert finding.fault == "replicas_diverge"
    assert "rank 3 differs from ranks 0, 1, 2" in finding.why
