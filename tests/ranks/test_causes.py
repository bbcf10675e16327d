"""What only all ranks together show: a learning rate that parts, and ranks that are fed the same data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.reporting import report

PROGRAM = """
import os, tempfile, torch
import torch.distributed as dist, torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

def worker(rank, path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + path, rank=rank, world_size=2)
    torch.manual_seed(0)
    x = torch.randn(256, 4)
    data = TensorDataset(x, x[:, :1] - x[:, 1:2])
    loader = DataLoader(data, batch_size=16, {loader})
    ddp = DDP(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 6, gamma=0.5)
    def batches():
        for epoch in range(4):
            {epoch}
            yield from loader
    for step, (x, y) in zip(range(20), batches()):
        loss = nn.functional.mse_loss(ddp(x), y)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        {schedule}
            scheduler.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(worker, args=(os.path.join(tempfile.mkdtemp(), "meet"),), nprocs=2)
"""
DIVIDED = "sampler=DistributedSampler(data)"


TOLD = "loader.sampler.set_epoch(epoch)"


def findings(folder: Path, loader: str, schedule: str, epoch: str) -> list[dict[str, Any]]:
    (folder / "train.py").write_text(PROGRAM.format(loader=loader, schedule=schedule, epoch=epoch))
    found: list[dict[str, Any]] = report(folder, "train.py", timeout=240)["findings"]
    return found


@pytest.mark.parametrize(
    ("loader", "schedule", "epoch", "fault", "since", "code"),
    [
        (DIVIDED, "if True:", TOLD, None, None, ""),
        ("shuffle=True", "if True:", "pass", "same_data_on_every_rank", 0, "DataLoader"),
        (DIVIDED, "if rank == 0:", TOLD, "replicas_diverge", 6, "scheduler.step()"),
        (DIVIDED, "if True:", "pass", "sampler_epoch_not_set", 8, "DataLoader"),
    ],
    ids=["healthy", "data not divided", "a schedule on one rank", "epochs shuffled alike"],
)
def test_two_ranks(
    loader: str, schedule: str, epoch: str, fault: str | None, since: int | None, code: str, tmp_path: Path
) -> None:
    found = findings(tmp_path, loader, schedule, epoch)
    assert [finding["fault"] for finding in found] == ([fault] if fault else [])
    for finding in found:
        assert finding["category"] == "distributed"
        assert finding["since_step"] == since
        assert code in finding["where"]["code"]
