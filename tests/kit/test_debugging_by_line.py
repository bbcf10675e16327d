"""pdb under `tensight run`, driven through a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tensight

LIMIT = 240.0
TRAINING = """
import torch
torch.manual_seed(0)
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)


def helper(loss):
    doubled = loss * 2
    return doubled


for step in range(4):
    x = torch.full((3, 2), float(step))
    loss = net(x).pow(2).mean()
    if step == 1:
        HERE
    value = helper(loss)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    reached = step
print("the end", reached)
"""


class Terminal:
    """A program that believes to have a terminal."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "dumb", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        environment.pop("PYTHONBREAKPOINT", None)
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
        )
        os.close(theirs)
        self.seen = ""

    def until(self, text: str) -> str:
        """What comes until a text is there."""
        deadline = time.monotonic() + LIMIT
        while text not in self.seen:
            if time.monotonic() > deadline or not self._read():
                raise AssertionError(f"{text!r} did not come; there was {self.seen!r}")
        part, _, self.seen = self.seen.partition(text)
        return part

    def say(self, line: str) -> str:
        """Type a line at pdb's prompt and return what it answers."""
        os.write(self._ours, line.encode() + b"\n")
        return self.until("(Pdb) ")

    def type(self, line: str) -> None:
        os.write(self._ours, line.encode() + b"\n")

    def end(self) -> int:
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline and self._read():
            pass
        return self._process.wait(LIMIT)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._ours)

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], 1.0)[0]:
            return self._process.poll() is None
        try:
            data = os.read(self._ours, 65536)
        except OSError:
            return False  # the other side is closed
        self.seen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)


def start(folder: Path, here: str, *options: str) -> Terminal:
    (folder / "train.py").write_text(TRAINING.replace("HERE", here))
    return Terminal(
        [sys.executable, "-m", "tensight", "run", "--no-page", "--no-rewind", "--run-dir", "out", *options, "train.py"],
        folder,
    )


def test_a_session_with_pdb(tmp_path: Path) -> None:
    terminal = start(tmp_path, "breakpoint()")
    try:
        terminal.until("(Pdb) ")
        assert "value = helper(loss)" in terminal.say("l")
        assert terminal.say("p step").strip().endswith("1")
        shown = terminal.say("p x")
        assert "Tensor(shape=[3, 2], dtype=float32)" in shown
        assert "min 1  max 1  mean 1" in shown
        assert "nan 0" in shown
        assert "tensor([[1., 1." in shown
        assert "tensor(" not in terminal.say("stats x")
        assert "--Call--" in terminal.say("s")
        assert "doubled = loss * 2" in terminal.say("n")
        assert "--Return--" in terminal.say("r")
        assert "loss.backward()" in terminal.say("n")
        assert "Documented commands" in terminal.say("h")
        assert "train.py:22" in terminal.say("b 22")
        assert "reached = step" in terminal.say("c")
        terminal.say("display step")
        assert "display step: 2" in terminal.say("c")  # a watched variable is shown where it has changed
        terminal.say("c")
        terminal.type("c")
        terminal.until("the end 3")
        assert terminal.end() == 0
    finally:
        terminal.close()


def test_quitting_pdb_ends_the_script_and_leaves_a_readable_run(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("x = 1\nimport pdb; pdb.set_trace()\nprint('not reached')\n")
    command = [sys.executable, "-m", "tensight", "run", "--no-page", "--run-dir", "out", "plain.py"]
    terminal = Terminal(command, tmp_path)
    try:
        terminal.until("(Pdb) ")
        assert terminal.say("p x").strip().endswith("1")
        terminal.type("q")
        assert terminal.end() == 1
    finally:
        terminal.close()
    assert tensight.open(tmp_path / "out").step_count == 0


def test_a_watchpoint_breaks_into_pdb_at_the_users_own_line(tmp_path: Path) -> None:
    terminal = start(tmp_path, "pass", "--watch", "TL(max_gt=1.5) on input:* action=pdb")
    try:
        came = terminal.until("(Pdb) ")
        assert "breaking into pdb" in came
        assert "train.py(21)" in came
        assert terminal.say("p step").strip().endswith("2")
        terminal.type("q")
        terminal.end()
    finally:
        terminal.close()


def test_a_watchpoint_that_asks_for_pdb_without_a_terminal_goes_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING.replace("HERE", "pass"))
    options = ["--no-page", "--no-rewind", "--run-dir", "out", "--watch", "TL(max_gt=1.5) on input:* action=pdb"]
    done = subprocess.run(
        [sys.executable, "-m", "tensight", "run", *options, "train.py"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0
    assert "needs a terminal" in done.stderr
    assert "the end 3" in done.stdout


@pytest.mark.parametrize("framework", ["torch", "mindspore"])
def test_a_tensor_in_words(framework: str) -> None:
    import numpy as np

    from tensight.session.debugger import describe
    from tests.kit.nets import training

    value = training(framework).tensor(np.array([1.0, 2.0, float("nan")], "f"))
    assert describe(value).startswith("Tensor(shape=[3], dtype=")
    assert "nan 1" in describe(value)
    assert describe("a word") == ""


def test_an_attached_debugpy_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from tensight.session import debugger

    stops: list[str] = []
    attached = SimpleNamespace(is_client_connected=lambda: True, breakpoint=lambda: stops.append("here"))
    monkeypatch.setitem(sys.modules, "debugpy", attached)
    assert debugger.can_enter()
    with debugger.breakpoints():
        breakpoint()
    debugger.enter()
    assert stops == ["here", "here"]
