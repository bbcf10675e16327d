"""A watchpoint's own action: the tensors of the next step are kept, or the user is put into pdb."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

from tensight.runs import open_run

LONG = 240.0
SCRIPT = """
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for number in range(6):
    loss = net(torch.ones(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("the end")
"""


def command(action: str) -> list[str]:
    watch = f"TL(max_gt=-1000) on output:* after=2 at_most=1 action={action}"
    return [sys.executable, "-m", "tensight", "run", "--no-page", "--run-dir", "run", "--watch", watch, "train.py"]


def test_dump_keeps_the_tensors_of_the_step_after_the_hit(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command("dump"), cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=LONG)
    assert ran.returncode == 0, ran.stderr
    assert "the tensors of step 3 are kept" in ran.stderr
    kept = open_run(tmp_path / "run").rank(0).kept
    assert list(kept) == [3]


def test_pdb_opens_in_the_users_own_code_and_lets_it_go_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    ours, theirs = pty.openpty()
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "dumb"}
    process = subprocess.Popen(
        command("pdb"), cwd=tmp_path, env=environ, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    try:
        seen = read_until(ours, b"(Pdb)")
        assert b"breaking into pdb" in seen
        assert b"train.py(" in seen
        os.write(ours, b"p 'number', number\n")
        assert b"('number', 2)" in read_until(ours, b"(Pdb)")
        os.write(ours, b"c\n")
        read_until(ours, b"the end")
        assert process.wait(LONG) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, words: bytes) -> bytes:
    seen = b""
    deadline = time.monotonic() + LONG
    while words not in seen:
        assert time.monotonic() < deadline, seen.decode(errors="replace")
        if select.select([terminal], [], [], 1.0)[0]:
            try:
                seen += os.read(terminal, 4096)
            except OSError:  # the other end is closed
                break
    assert words in seen, seen.decode(errors="replace")
    return seen


def test_without_a_terminal_pdb_is_only_said(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    ran = subprocess.run(
        command("pdb"),
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert ran.returncode == 0
    assert ran.stdout == "the end\n"
    assert "asks for pdb, which needs a terminal" in ran.stderr
