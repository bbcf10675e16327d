"""A command whose standard error is a terminal: what one sees there while it runs."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path


def in_a_terminal(*words: str, cwd: Path, timeout: float = 800) -> tuple[int, str]:
    """The exit code of `tensight …` and everything that it has drawn."""
    ours, theirs = pty.openpty()
    pieces: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # nobody has the other end any more
                return
            if not piece:
                return
            pieces.append(piece)

    listening = threading.Thread(target=listen)
    listening.start()
    try:
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
        done = subprocess.run(
            [sys.executable, "-m", "tensight", *words],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            env=environment,
            timeout=timeout,
            check=False,
        )
    finally:
        os.close(theirs)
        listening.join()
        os.close(ours)
    return done.returncode, b"".join(pieces).decode("utf-8", "replace")
