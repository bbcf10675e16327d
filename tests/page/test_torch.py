"""The page drives a real PyTorch training, from the command line."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.page.conftest import Watched

expect.set_options(timeout=60_000)
LONG = 90.0
SCRIPT = """
import time, torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(1_000_000):
    x = torch.randn(32, 8)
    loss = torch.nn.functional.cross_entropy(net(x), (x.sum(1) > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.02)
"""


class Command:
    """A tensight command in a process of its own, and the lines it prints."""

    def __init__(self, folder: Path, *words: str) -> None:
        environment = {**os.environ, "TENSIGHT_STATE": str(folder / "state"), "OMP_NUM_THREADS": "1"}
        environment.pop("SSH_CONNECTION", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tensight", *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def url(self) -> str:
        """The address that is printed."""
        while True:
            found = re.search(r"https?://\S+token=\S+", self.lines.get(timeout=LONG))
            if found:
                return found[0]


@contextlib.contextmanager
def command(folder: Path, *words: str) -> Iterator[Command]:
    made = Command(folder, *words)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait(LONG)
        made.reader.join(LONG)
        assert made.process.stdout is not None
        made.process.stdout.close()


def drive(page: Page, running: Command) -> None:
    """Pause, go from node to node, look at one, and end it."""
    state = page.locator("header.top .pill").first
    expect(state).to_contain_text("running")
    page.get_by_role("button", name="Pause").click()
    expect(state).to_contain_text("paused")
    page.get_by_role("button", name="Next node").click()
    expect(page.locator(".reason")).to_contain_text("at 0, forward")
    page.get_by_role("treeitem", name="2 Linear").click()
    expect(page.locator(".inspector")).to_contain_text("weight.grad")
    expect(page.locator(".inspector .stats").first).to_be_visible()
    page.get_by_role("button", name="Run to node").click()
    expect(page.locator(".reason")).to_contain_text("at 2, forward")
    page.get_by_role("button", name="Terminate").click()
    page.get_by_role("dialog").get_by_role("button", name="Terminate").click()
    assert running.process.wait(LONG) == 0
    expect(state).to_contain_text("stopped")


def test_tensight_run_prints_a_page_that_drives_it(tmp_path: Path, watched: Watched) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    with command(tmp_path, "run", "train.py") as running:
        page = watched.page()
        page.goto(running.url())
        drive(page, running)


def test_a_training_comes_to_tensight_serve_and_is_driven_there(tmp_path: Path, watched: Watched) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    with command(tmp_path, "serve", "--port", "0") as server:
        page = watched.page()
        url = server.url()
        page.goto(url)
        place = re.search(r"127\.0\.0\.1:\d+", url)
        assert place is not None
        expect(page.get_by_text(f"tensight run --server {place[0]} train.py")).to_be_visible()
        with command(tmp_path, "run", "--server", place[0], "train.py") as running:
            page.get_by_role("link", name="train-1").click()
            drive(page, running)
