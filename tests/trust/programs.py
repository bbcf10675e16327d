"""A training that goes on until it is stopped, as a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LONG = 240.0

ENDLESS = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(64, 4); y = x.sum(1, keepdim=True)
for step in range(10**9):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


@contextlib.contextmanager
def started(folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """`tensight run train.py` in a folder, its run in `run`; it is gone afterwards."""
    words = [sys.executable, "-m", "tensight", "run", "--run-dir", "run", "--budget", "100", *options, "train.py"]
    with (folder / "said.txt").open("w") as said:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            # a shell's background jobs ignore Ctrl-C, and so would what they start
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def until(true: Callable[[], Any], seconds: float = LONG) -> Any:
    """Wait for something that will come, and hand it over."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
    return found
