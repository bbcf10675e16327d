"""Two real ranks under `tensight profile`: what communication takes, and the rank that the other waits for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tensight.profiling import Reading, files
from tensight.profiling.ranks import slow_rank

SCRIPT = """
import time, torch
import torch.distributed as dist
from torch import nn

class Slow(nn.Module):
    def forward(self, x):
        if dist.get_rank() == 1:
            time.sleep(0.5)  # the slow line
        return x

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
net = nn.parallel.DistributedDataParallel(
    nn.Sequential(nn.Linear(64, 64), Slow(), nn.Linear(64, 64), nn.Linear(64, 1)), bucket_cap_mb=0.01
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(14):
    loss = net(torch.randn(8, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> list[Reading]:
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "train.py").write_text(SCRIPT)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "tensight"]
    profile = ["profile", "--warm-up", "2", "--steps", "5", "--trace-steps", "2", "--run-dir", "run", "train.py"]
    ran = subprocess.run(
        [*launch, *profile],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    return [Reading(one) for one in files.profiles(folder / "run")]


def test_the_rank_that_all_wait_for_is_named_with_the_part_that_is_slow(readings: list[Reading]) -> None:
    assert [reading.profile.rank for reading in readings] == [0, 1]
    # the collective makes backward of the fast rank as long as forward of the slow one: that is no measure of work
    advice = slow_rank(readings)
    assert advice is not None
    assert advice.rank == 1
    assert ("part", "forward") in [(fact.what, fact.value) for fact in advice.evidence]
    assert advice.source is not None
    assert advice.source.code == "time.sleep(0.5)  # the slow line"


def test_time_of_communication_its_overlap_and_the_buckets_are_measured(readings: list[Reading]) -> None:
    fast = readings[0]
    whole, hidden = fast.number("ddp.backward_comm"), fast.number("ddp.backward_compute_comm_overlap")
    assert whole > 0
    assert 0 <= hidden <= whole
    sizes = str(fast.fact("ddp.rebuilt_bucket_sizes") or fast.fact("ddp.bucket_sizes"))
    assert sum(int(size) for size in sizes.split(",")) == 4 * (2 * (64 * 64 + 64) + 64 + 1)
    assert fast.number("ddp.bucket_cap_bytes") == int(0.01 * 1024 * 1024)
