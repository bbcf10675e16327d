"""A training on several ranks in processes of its own, and a page's way to drive it."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

LONG = 200.0
SCRIPT = """
import datetime, os, sys, time, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=float(sys.argv[1])))
torch.manual_seed(0)
net = DDP(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
torch.manual_seed(dist.get_rank())
for step in range(1_000_000):
    x = torch.randn(8, 8)
    loss = torch.nn.functional.cross_entropy(net(x), (x.sum(1) > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(float(sys.argv[2]))
    while dist.get_rank() == 1 and os.path.exists("hold"):
        time.sleep(0.05)
"""


class Driven:
    """`torchrun … -m tensight run`, what it prints, and its page's data; with 0 ranks the script starts them itself."""

    def __init__(
        self,
        folder: Path,
        ranks: int,
        *arguments: str,
        script: str = SCRIPT,
        options: tuple[str, ...] = (),
        launcher: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder
        (folder / "train.py").write_text(script)
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TENSIGHT_STATE": str(folder / "state")}
        environment["TENSIGHT_STALL"] = "2"
        run = ["-m", "tensight", "run", "--run-dir", str(folder / "run"), *options, "train.py", *arguments]
        self.process = subprocess.Popen(
            [*torchrun, *launcher, *run] if ranks else [sys.executable, *run],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.printed: list[str] = []
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._http: httpx.Client | None = None

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(line)
            self._lines.put(line)

    @property
    def http(self) -> httpx.Client:
        """A page that has the token."""
        while self._http is None:
            found = re.search(r"(http://[^/]+:(\d+))/\S*\?token=(\S+)", self._lines.get(timeout=LONG))
            if found:
                cookie = {f"tensight_{found[2]}": found[3]}
                self._http = httpx.Client(base_url=found[1], cookies=cookie, timeout=LONG, trust_env=False)
        return self._http

    def control(self) -> dict[str, Any]:
        answer = self.http.get("/api/runs/run")
        got: dict[str, Any] = (answer.json().get("control") or {}) if answer.status_code == 200 else {}
        return got

    def drive(self, do: str, **fields: object) -> None:
        answer = self.http.post("/api/runs/run/control", json={"do": do, **fields})
        assert answer.status_code == 200, answer.text

    def steps(self) -> list[int]:
        """The step each rank says it has ended last."""
        return [one["step"] for one in self.control()["ranks"]]

    def until(self, true: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + LONG
        while not (found := true()):
            assert self.process.poll() is None, "".join(self.printed)
            assert time.monotonic() < deadline, f"not {what}: {self.control()}\n{''.join(self.printed)}"
            time.sleep(0.02)
        return found

    def running(self, ranks: int) -> None:
        self.until(
            lambda: [one["state"] for one in self.control().get("ranks", ())] == ["running"] * ranks, "all running"
        )

    def pause(self) -> int:
        """Pause, and the step behind which all ranks hold."""
        self.drive("pause")
        return self.paused()

    def paused(self) -> int:
        self.until(lambda: self.control()["state"] == "paused", "paused")
        steps = self.steps()
        assert len(set(steps)) == 1, f"ranks are paused behind different steps: {steps}"
        return steps[0]

    def go_on(self, after: int) -> None:
        self.drive("continue")
        self.until(lambda: min(self.steps()) > after, "going on")

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(LONG)
        _end_servers(self.folder)
        self._reader.join(LONG)
        assert self.process.stdout is not None
        self.process.stdout.close()


def _end_servers(folder: Path) -> None:
    """The page's server has a session of its own and waits a moment for pages: it need not."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and os.readlink(entry / "cwd") == str(folder.resolve()):
                os.kill(int(entry.name), signal.SIGKILL)


@contextlib.contextmanager
def driven(folder: Path, ranks: int, *arguments: str, **options: Any) -> Iterator[Driven]:
    made = Driven(folder, ranks, *arguments, **options)
    try:
        yield made
    finally:
        made.close()
