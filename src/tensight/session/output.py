"""What the script prints, kept beside the run for the page: each line with the step it was printed in.

The script's own output is not touched: its `write` runs first, and what it answers is handed on. Lines of Tensight
itself are left out. Only what goes through Python's standard output and error is seen.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tensight.capture.companion import Companion
from tensight.records import Finding, RunEnd, StepRecord
from tensight.runs.output import Line, append

if TYPE_CHECKING:
    from tensight.capture.recorder import Recorder

EVERY = 0.5  # seconds between two writes to the file
LONGEST = 2000  # characters of a line that are kept
MOST_WAITING = 2000  # lines between two writes; more than that nobody reads


class Listening(Companion):
    """Listens to standard output and error while the script runs. `known` tells whether it is known which rank this
    process is: what is printed before that waits. `make_room` is called before the script prints: a line of ours may
    stand where its text shall go."""

    def __init__(
        self,
        recorder: Recorder,
        folder: Path,
        known: Callable[[], bool] = lambda: True,
        make_room: Callable[[], None] = lambda: None,
    ) -> None:
        self._recorder = recorder
        self._folder = folder
        self._known = known
        self._make_room = make_room
        self._pid = os.getpid()
        self._lines: list[Line] = []
        self._open: dict[str, str] = {}  # what was written of a line that has not ended
        self._written = 0.0
        self._left_out = 0
        self._restore: list[Callable[[], None]] = []

    def started(self) -> None:
        for name in ("stdout", "stderr"):
            stream: TextIO | None = getattr(sys, name)
            if stream is not None:
                self._listen(name, stream)

    def _listen(self, name: str, stream: TextIO) -> None:
        original = stream.write

        def write(text: str) -> int:
            self._before()
            count = original(text)
            try:
                self._heard(name, text)
            except Exception as error:  # whatever happens here, the script has printed
                self._recorder.failed("output", error)
            return count

        try:
            stream.write = write  # type: ignore[method-assign]
        except AttributeError:
            return  # a stream of the user's own that cannot be listened to

        def restore() -> None:
            if stream.__dict__.get("write") is write:
                del stream.__dict__["write"]

        if hasattr(stream, "__dict__"):
            self._restore.append(restore)

    def _before(self) -> None:
        try:
            if os.getpid() == self._pid and not _is_ours():
                self._make_room()
        except Exception as error:  # the script prints all the same
            self._recorder.failed("output", error)

    @property
    def in_a_line(self) -> bool:
        """Whether the script has begun a line and not ended it, as a progress bar does."""
        return any(self._open.values())

    def _heard(self, name: str, text: str) -> None:
        if os.getpid() != self._pid or _is_ours() or not isinstance(text, str):
            return
        *whole, rest = (self._open.get(name, "") + text).split("\n")
        self._open[name] = rest[-LONGEST:]
        now = time.time()
        for line in whole:
            said = line.rstrip("\r").rpartition("\r")[2]  # a progress bar is what it shows in the end
            if len(self._lines) < MOST_WAITING:
                self._lines.append(Line(self._recorder.step, now, name, said[:LONGEST]))
            else:
                self._left_out += 1
        if whole and now - self._written >= EVERY:
            self._write(now)

    def _write(self, now: float) -> None:
        if not self._known():
            return
        self._written = now
        if self._left_out:
            self._lines.append(Line(self._recorder.step, now, "", f"{self._left_out} more lines were printed"))
            self._left_out = 0
        lines, self._lines = self._lines, []
        if lines:
            append(self._folder, self._recorder.rank, lines)

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        now = time.time()
        if self._lines and now - self._written >= EVERY and os.getpid() == self._pid:
            self._write(now)

    def ended(self, end: RunEnd) -> None:
        if os.getpid() != self._pid:
            return
        for restore in self._restore:
            restore()
        for name, rest in self._open.items():
            if rest:
                self._lines.append(Line(self._recorder.step, time.time(), name, rest[:LONGEST]))
        self._open.clear()
        self._write(time.time())


def _is_ours() -> bool:
    """Whether Tensight itself prints; a traceback of the script is the script's own."""
    try:
        name = str(sys._getframe(3).f_globals.get("__name__", ""))
    except ValueError:  # printed by the interpreter itself
        return False
    return name.startswith("tensight.") and name != "tensight.session.program"
