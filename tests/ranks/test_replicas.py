"""Training on two ranks: replicas that no longer agree are found, healthy ones are left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import os, tempfile, torch
import torch.distributed as dist, torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

def worker(rank, path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    ddp = DDP(net)
    {after}
    optimizer = torch.optim.SGD(ddp.parameters(), lr={lr})
    generator = torch.Generator().manual_seed(rank)
    for step in range(12):
        x = torch.randn(16, 4, generator=generator)
        loss = nn.functional.mse_loss({call}, x[:, :1])
        optimizer.zero_grad(); loss.backward(); optimizer.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(worker, args=(os.path.join(tempfile.mkdtemp(), "meet"),), nprocs=2)
"""


def report(folder: Path, call: str = "ddp(x)", lr: str = "0.05", after: str = "pass") -> dict[str, Any]:
    (folder / "train.py").write_text(PROGRAM.format(call=call, lr=lr, after=after))
    ran = subprocess.run(
        [sys.executable, "-m", "tensight", "run", "--no-page", "--report", "report.json", "train.py"],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, None),
        ({"call": "ddp.module(x)"}, "ddp_wrapper_bypassed"),
        ({"lr": "0.05 * (1 + rank)"}, "replicas_diverge"),
    ],
    ids=["healthy", "wrapper bypassed", "another learning rate on each rank"],
)
def test_two_ranks(changes: dict[str, str], fault: str | None, tmp_path: Path) -> None:
    found = report(tmp_path, **changes)
    assert found["run"]["ranks"] == 2
    assert found["run"]["steps"] == 12
    assert [finding["fault"] for finding in found["findings"]] == ([fault] if fault else [])
    if fault:
        first = found["findings"][0]
        assert first["since_step"] == 0
        assert first["category"] == "distributed"
        assert first["where"]["parameter"] == "0.weight"
