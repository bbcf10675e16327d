"""Changes tried on a few steps of a program, in processes of their own: `tensight profile --try`.

With several ranks the first one says what is tried next and where its ranks meet; the others follow. So they start the
same thing, whatever each of them has measured.
"""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from tensight.errors import TensightError
from tensight.profiling import Reading, files
from tensight.records.timing import Tried
from tensight.session.program import Program
from tensight.session.settings import rank, ranks

LONGEST = 600.0  # seconds of one attempt
TURNS = 2  # that each change gets, one after the other, so that a moment's load does not decide
CLOCKED = 2.0  # seconds that each turn is clocked at least: of a few short steps one learns more of the machine
MOST_STEPS = 1000
AS_IT_IS = ""
BUSY = 0.25  # share of a step without a processor from which a time is not to be trusted


class Attempt(msgspec.Struct, frozen=True):
    """What all ranks start next; `port` 0: nothing more."""

    change: str = AS_IT_IS
    port: int = 0


class Measured(NamedTuple):
    """A step of one attempt: its seconds, and how much of it besides the thread waited for a processor."""

    seconds: float
    delayed: float = 0.0


def try_changes(
    program: Program,
    folder: Path,
    changes: Sequence[str],
    *,
    steps: int = 20,
    told: Callable[[str, int, int], None] = lambda text, done, size: None,
) -> list[Tried]:
    """Run the program again for a few steps, as it is and with each change; what the first rank has measured."""
    if rank() > 0:
        _follow(program, folder, steps)
        return []
    times: dict[str, list[Measured]] = {change: [] for change in ((AS_IT_IS, *changes) if changes else ())}
    broken: set[str] = set()
    number = 0
    for _ in range(TURNS):
        for change in (one for one in times if one not in broken and AS_IT_IS not in broken):
            told(change or "as it is", number, TURNS * len(times))
            attempt = _said(folder, number, Attempt(change, _free_port()))
            number += 1
            measured = _clocked(program, attempt, steps)
            if measured is None:
                broken.add(change)
            else:
                times[change].append(measured)
    _said(folder, number, Attempt())
    if not changes or AS_IT_IS in broken:
        return []
    # the better turn: what else the machine does only ever adds
    before = min(times[AS_IT_IS])
    return [_tried(change, before, times[change] if change not in broken else []) for change in changes]


def steps_to_clock(asked: int, seconds: float) -> int:
    """So many steps, and more where a step takes so few seconds that they would be over at once.

    >>> steps_to_clock(20, 0.004), steps_to_clock(20, 0.5), steps_to_clock(20, 1e-6)
    (500, 20, 1000)
    """
    return max(asked, min(MOST_STEPS, math.ceil(CLOCKED / seconds))) if seconds > 0 else asked


def _tried(change: str, before: Measured, times: Sequence[Measured]) -> Tried:
    """
    >>> _tried("batch=4", Measured(0.2), [Measured(0.4), Measured(0.5)]).after
    0.1
    """
    if not times:
        return Tried(change, before.seconds, before.seconds, "it could not be tried: the script failed with it")
    after = min(times)
    notes = []
    if max(before.delayed, after.delayed) >= BUSY:
        waited = round(100 * max(before.delayed, after.delayed))
        notes.append(f"not sure: the training had no processor {waited} % of the time")
    name, _, value = change.partition("=")
    scale = 1.0
    if name == "batch":
        scale = float(value)
        notes.append("for the same number of samples")
    return Tried(change, before.seconds, after.seconds / scale, "; ".join(notes))


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


def _clocked(program: Program, attempt: Attempt, steps: int) -> Measured | None:
    """A mean step in a fresh process; None when that failed."""
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
        if len(reading.clocked) < 3 or reading.own_seconds <= 0:
            return None
        return Measured(reading.own_seconds, reading.delayed)
