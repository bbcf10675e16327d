"""Whether a process is still there."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

_SILENCE = 60.0  # seconds without a write after which a process of another machine counts as gone


def host() -> str:
    """The name of this machine."""
    return socket.gethostname()


def started(pid: int) -> int:
    """When a process began, in the system's own ticks; 0 when that cannot be known."""
    fields = _status(pid)
    return int(fields[19]) if fields else 0


def alive(pid: int, on_host: str, began: int, last_write: float) -> bool:
    """Whether the process that wrote a part still runs.

    On another machine only the age of the last write can tell. A number that was given to another process since is
    told apart by the time that process began.
    """
    if on_host and on_host != host():
        return time.time() - last_write < _SILENCE
    if pid <= 0:
        return False
    fields = _status(pid)
    if fields:
        return fields[0] not in ("Z", "X") and (not began or int(fields[19]) == began)
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return not Path("/proc/self/stat").exists()


def _status(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat from the state on; empty when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
