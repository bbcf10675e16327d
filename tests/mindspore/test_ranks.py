"""Two ranks under MindSpore's own launcher make one run; tried in the full run, since the launcher is impatient."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import tensight
from tensight.session.settings import rank, ranks

FULL = bool(os.environ.get("TENSIGHT_FULL"))

TRAINING = """
import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.communication import get_group_size, get_rank, init

init()
own, size = get_rank(), get_group_size()
ms.set_seed(1)
net = nn.SequentialCell(nn.Dense(6, 8), nn.ReLU(), nn.Dense(8, 1))
net.set_train()
update = nn.SGD(net.trainable_params(), 0.05)
compare = nn.MSELoss()
total = ops.AllReduce()
gradient = ms.value_and_grad(lambda x, y: compare(net(x), y), None, update.parameters)
random = np.random.RandomState(10 + own)
for step in range(6):
    x = random.randn(16, 6).astype("f")
    loss, found = gradient(Tensor(x), Tensor(x[:, :1] * 2))
    update(tuple(total(one) / size for one in found))
"""


def test_the_ranks_that_msrun_starts_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK_ID", "1")
    monkeypatch.setenv("RANK_SIZE", "2")
    assert (rank(), ranks()) == (1, 2)


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


if FULL:

    @pytest.mark.timeout(1200)
    def test_two_ranks_under_msrun_are_one_run(tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text(TRAINING)
        folder = Path(sys.executable).parent
        words = ["--worker_num=2", "--local_worker_num=2", f"--master_port={free_port()}", "--join=True"]
        program = ["python", "-m", "tensight", "run", "--no-page", "--run-dir", "out", "--report", "report.json"]
        ran = subprocess.run(
            [str(folder / "msrun"), *words, "--log_dir=logs", *program, "train.py"],
            cwd=tmp_path,
            env={**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=1100,
            stdin=subprocess.DEVNULL,
        )
        assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
        report = json.loads((tmp_path / "report.json").read_text())
        assert (report["run"]["ranks"], report["run"]["ended"], report["findings"]) == (2, "finished", [])
        run = tensight.open(tmp_path / "out")
        assert sorted(run.readers) == [0, 1]
        assert all(len(reader.steps.numbers) == 6 for reader in run.readers.values())
