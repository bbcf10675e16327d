"""Changes tried on a few steps of a program, in processes of their own: `tensight profile --try`.

With several ranks the first one says what is tried next and where its ranks meet; the others follow. So they start the
same thing, whatever each of them has measured.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tensight.errors import TensightError
from tensight.profiling import Reading, files
from tensight.records.timing import Tried
from tensight.session.program import Program
from tensight.session.settings import rank, ranks

LONGEST = 600.0  # seconds of one attempt
TURNS = 2  # that each change gets, one after the other, so that a moment's load does not decide
AS_IT_IS = ""


class Attempt(msgspec.Struct, frozen=True):
    """What all ranks start next; `port` 0: nothing more."""

    change: str = AS_IT_IS
    port: int = 0


def try_changes(
    program: Program,
    folder: Path,
    changes: Sequence[str],
    *,
    steps: int = 20,
    told: Callable[[str], None] = lambda text: None,
) -> list[Tried]:
    """Run the program again for a few steps, as it is and with each change; what the first rank has measured."""
    if rank() > 0:
        _follow(program, folder, steps)
        return []
    times: dict[str, list[float]] = {change: [] for change in ((AS_IT_IS, *changes) if changes else ())}
    broken: set[str] = set()
    number = 0
    for _ in range(TURNS):
        for change in (one for one in times if one not in broken and AS_IT_IS not in broken):
            told(change or "as it is")
            attempt = _said(folder, number, Attempt(change, _free_port()))
            number += 1
            seconds = _clocked(program, attempt, steps)
            if seconds is None:
                broken.add(change)
            else:
                times[change].append(seconds)
    _said(folder, number, Attempt())
    if not changes or AS_IT_IS in broken:
        return []
    # the better turn: what else the machine does only ever adds
    before = min(times[AS_IT_IS])
    return [_tried(change, before, times[change] if change not in broken else []) for change in changes]


def _tried(change: str, before: float, times: Sequence[float]) -> Tried:
    """
    >>> _tried("batch=4", 0.2, [0.4, 0.5]).after
    0.1
    """
    if not times:
        return Tried(change, before, before, "it could not be tried: the script failed with it")
    name, _, value = change.partition("=")
    if name == "batch":
        return Tried(change, before, min(times) / float(value), "for the same number of samples")
    return Tried(change, before, min(times))


def _note(folder: Path, number: int) -> Path:
    return files.profile_file(folder, 0).with_name(f"try-{number}.json")


def _said(folder: Path, number: int, attempt: Attempt) -> Attempt:
    """Tell the other ranks, if there are any."""
    if ranks() > 1:
        note = _note(folder, number)
        half = note.with_suffix(".part")
        half.write_bytes(msgspec.json.encode(attempt))
        half.replace(note)
    return attempt


def _follow(program: Program, folder: Path, steps: int) -> None:
    """Do what the first rank says until it says that it is over, or nothing any more."""
    number = 0
    while True:
        note = _note(folder, number)
        end = time.monotonic() + LONGEST + 60
        while not note.exists():
            if time.monotonic() > end:
                return
            time.sleep(0.05)
        attempt = msgspec.json.decode(note.read_bytes(), type=Attempt)
        if not attempt.port:
            return
        _clocked(program, attempt, steps)
        number += 1


def _free_port() -> int:
    with socket.socket() as asked:
        asked.bind(("", 0))
        return int(asked.getsockname()[1])


def _clocked(program: Program, attempt: Attempt, steps: int) -> float | None:
    """Mean seconds of a step in a fresh process; None when that failed."""
    with tempfile.TemporaryDirectory(prefix="tensight-try-") as place:
        folder = Path(place) / "run"
        words = [sys.executable, "-m", "tensight", "profile", "--clock-only", "--steps", str(steps)]
        words += ["--run-dir", str(folder)]
        if attempt.change:
            words += ["--change", attempt.change]
        words += ["-m", program.target] if program.module else [program.target]
        environment = dict(os.environ)
        if ranks() > 1:
            # the ranks that are there meet at an address of their own: the launcher's is taken
            environment |= {"MASTER_PORT": str(attempt.port), "TORCHELASTIC_USE_AGENT_STORE": "False"}
        try:
            subprocess.run(
                [*words, *program.arguments],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                env=environment,
                timeout=LONGEST,
                check=False,
            )
            reading = Reading(files.need(folder)[0])
        except (subprocess.TimeoutExpired, TensightError, OSError):
            return None
        # the mean and not the median: a change may take away what only some steps wait for
        return reading.seconds if len(reading.clocked) >= 3 and reading.seconds > 0 else None
