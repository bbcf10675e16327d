"""A script that waits for all of its children meets its own, and none of ours: it never waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tensight import children

SCRIPT = """
import multiprocessing, os, signal, time
import torch
from torch import nn

def none_left(ask):
    try:
        return ask()
    except ChildProcessError:
        return "no child"

def child(code):
    pid = os.fork()
    if pid == 0:
        time.sleep(0.2)
        os._exit(code)
    return pid

def loop(ask):
    seen = []
    while (got := none_left(ask)) != "no child":
        seen.append(got)
    return seen

signal.alarm(60)
if __name__ == "__main__":
    net = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    before = 0
    for step in range(40):
        loss = net(torch.ones(3, 4)).pow(2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        there = len(open(f"/proc/self/task/{os.getpid()}/children").read().split())
        before = max(before, there)
    print("hidden", before > 0)
    print("active", multiprocessing.active_children())
    print("now", none_left(lambda: os.waitpid(-1, os.WNOHANG)), none_left(lambda: os.waitpid(0, 0)))
    mine = {child(3), child(4)}
    print("soon", os.waitpid(-1, os.WNOHANG), os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG))
    got = loop(os.wait)
    print("wait", {pid for pid, _ in got} == mine, sorted(os.waitstatus_to_exitcode(status) for _, status in got))
    one = child(5)
    print("waitpid", loop(lambda: os.waitpid(-1, 0)) == [(one, 5 << 8)])
    one = child(6)
    print("waitid", [(got.si_pid == one, got.si_status) for got in loop(lambda: os.waitid(os.P_ALL, 0, os.WEXITED))])
    one = child(7)
    print("wait4", [(pid == one, status >> 8) for pid, status, used in loop(lambda: os.wait4(-1, 0))])
    one = child(8)
    print("group", loop(lambda: os.waitpid(-os.getpgrp(), 0)) == [(one, 8 << 8)])
    for step in range(4):
        loss = net(torch.ones(3, 4)).pow(2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
    print("end", none_left(os.wait))
"""

PRINTED = """\
hidden {hidden}
active []
now no child no child
soon (0, 0) None
wait True [3, 4]
waitpid True
waitid [(True, 6)]
wait4 [(True, 7)]
group True
end no child
"""


@pytest.mark.parametrize("words", [("--no-page",), ("--port", "0")], ids=["rewind", "page"])
def test_a_script_that_waits_until_no_child_is_left_ends_as_without_us(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    printed = []
    for start in ([], ["-m", "tensight", "run", *words]):
        ran = subprocess.run(
            [sys.executable, *start, "train.py"],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=240,
            stdin=subprocess.DEVNULL,
        )
        assert ran.returncode == 0, ran.stderr
        printed.append(ran.stdout)
    assert printed == [PRINTED.format(hidden=False), PRINTED.format(hidden=True)]


def test_a_number_that_has_become_another_process_is_not_hidden() -> None:
    first = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    children.hide(first.pid)
    assert children._have_some()
    children._ours[first.pid] = "long ago"
    assert not children._have_some()
    first.communicate(b"\n")


def test_a_child_that_was_collected_by_name_is_forgotten() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    children.hide(gone.pid)
    assert os.waitpid(gone.pid, 0) == (gone.pid, 0)
    gone.returncode = 0
    assert not children._have_some()
