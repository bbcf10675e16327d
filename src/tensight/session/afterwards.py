"""The report of a run whose process is killed: a small process of its own waits for the end, and writes it then.

It is started only for `--report`, is no child of the training (whoever waits for all children does not meet it), and
goes at once when the training writes its report itself. Until the training is dead it imports nothing of Tensight.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

LONGEST = 120  # seconds that the report of a killed run may take


def attend(folder: Path, report: Path, muted: Collection[str]) -> Callable[[], None]:
    """Have the report written should this process be killed. What is returned calls that off."""
    if not hasattr(os, "pidfd_open"):
        return lambda: None
    order = json.dumps([os.getpid(), str(folder), str(report), sorted(muted), sys.path])
    try:
        starter = subprocess.Popen([sys.executable, "-I", __file__], stdin=subprocess.PIPE, start_new_session=True)
    except OSError:
        return lambda: None
    line = starter.stdin
    assert line is not None
    try:
        line.write(f"{order}\n".encode())
        line.flush()
        starter.wait(LONGEST)
    except (OSError, subprocess.TimeoutExpired):
        starter.kill()

    def called_off() -> None:
        try:
            line.write(b"done\n")
            line.close()
        except OSError:
            pass  # it is gone already

    return called_off


def wait(parent: int, stdin: int = 0) -> bool:
    """Wait until the training has written its report itself (False) or is dead without it (True)."""
    try:
        life = os.pidfd_open(parent)
    except OSError:
        return True
    watched = [life, stdin]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if stdin in ready:
            said = os.read(stdin, 16)
            if said:
                return False
            watched.remove(stdin)  # its end is closed, and the training goes on without us, or dies now
        elif life in ready:
            return True


def main() -> None:
    """Leave the training's family, wait, and write what is missing."""
    order = b""
    while not order.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            return
        order += piece
    parent, folder, report, muted, path = json.loads(order)
    if os.fork():
        os._exit(0)
    before = time.time()
    if not wait(parent):
        return
    signal.alarm(LONGEST)  # whoever reads our output waits for us: never for long
    target = Path(report)
    if target.exists() and target.stat().st_mtime >= before:
        return
    sys.path[:] = path
    from tensight.errors import TensightError
    from tensight.runs import open_run
    from tensight.runs import report as reports

    try:
        reports.write(open_run(Path(folder)), target, muted=muted)
    except (TensightError, OSError) as error:
        print(f"tensight: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
