"""What the user reads while the training runs: one live line, and a block when something goes wrong.

Everything goes to standard error; standard output belongs to the script.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import TextIO

from tensight.capture.coverage import coverage_line, step_check_line
from tensight.diagnosis.rules.data import NanInInput
from tensight.records import Coverage, Finding, Hit, Network, StepRecord, TensorInfo
from tensight.runs.blocks import finding_block, hit_line, plain

EVERY = 0.1  # seconds between two status lines
MOST_HITS = 20  # lines for hits; the rest is counted
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what a full disk, a quota or a limit on files answers
_OF_BATCHES = frozenset({NanInInput.fault, *NanInInput.also})  # a second look may find the line that made them


class Terminal:
    """Speaks to the user. With `quiet` only findings and troubles are said; without `findings` troubles alone.

    Of several ranks that share a terminal the first speaks for all; what another has to say bears its number.
    """

    def __init__(
        self, stream: TextIO | None = None, *, quiet: bool = False, findings: bool = True, rank: int = 0
    ) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self.rank = rank
        self._quiet = quiet or rank > 0
        self._findings = findings
        self._next = 0.0
        self._since = (time.perf_counter(), 0)
        self._shown = 0
        self._hits = 0
        self._speed = 0.0
        self._norm: float | None = None
        self._said: dict[str, str] = {}  # findings that were said → by which title
        self.first_to_say: Callable[[str], bool] = lambda words: True  # no other rank has said this before
        self.page_of: Callable[[Finding], str] = lambda finding: ""  # where the page shows a finding
        self.in_a_line: Callable[[], bool] = lambda: False  # the script has begun a line: there is no room for ours
        self.known: Collection[str] = ()  # keys of findings that are muted: a baseline holds them
        self.in_vain: Callable[[], Sequence[str]] = tuple  # selectors of watchpoints that are asked about nothing
        self.memory = 0  # bytes held for rewind, shown in the status line
        self.rewinds = False  # bad steps are looked at again: their findings are said when that has ended

    def line(self, text: str) -> None:
        """A line of its own."""
        self._clear()
        print(f"tensight{f', rank {self.rank}' if self.rank else ''}: {text}", file=self._stream, flush=True)

    def block(self, text: str) -> None:
        self._clear()
        print(f"\n{text}\n", file=self._stream, flush=True)

    def covered(self, coverage: Coverage) -> None:
        if not self._quiet:
            self.line(coverage_line(coverage))
            for selector in self.in_vain():
                self.line(f"--watch: {selector!r} selects nothing so far; `tensight params` lists the names of weights")

    def first_step(self, record: StepRecord, tensors: dict[int, TensorInfo], networks: list[Network]) -> None:
        if not self._quiet and record.training and record.losses:
            self.line(step_check_line(record, tensors, networks))

    def step(self, record: StepRecord, cost: float | None) -> None:
        if not self._live or self._quiet or self.in_a_line():
            return
        now = time.perf_counter()
        if now < self._next:
            return
        self._next = now + EVERY
        then, step = self._since
        if now - then > 0.5:
            self._speed = (record.step - step) / (now - then)
            self._since = (now, record.step)
        pieces = [f"step {record.step}"]
        if record.loss is not None:
            pieces.append(f"loss {record.loss:.5g}")
        # of steps that are watched lightly it is not known: a line that came and went could not be read
        self._norm = record.scalars.get("gradient_norm", self._norm)
        if self._norm is not None:
            pieces.append(f"gradient norm {self._norm:.3g}")
        if self._speed:
            pieces.append(f"{self._speed:.1f} steps/s")
        if cost is not None:
            pieces.append(f"watching {100 * (cost - 1):.1f} %")
        if self.memory:
            pieces.append(f"rewind holds {max(1, round(self.memory / 2**20))} MB")
        text = "  ".join(pieces)[: self._width() - 1]  # a line that wraps could not be taken away again
        self._stream.write("\r" + text + " " * max(0, self._shown - len(text)))
        self._stream.flush()
        self._shown = len(text)

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def finding(self, finding: Finding) -> None:
        """Said at once, or when the second look at its step has ended."""
        waits = finding.category == "numeric-nonfinite" or finding.fault in _OF_BATCHES
        if self.rewinds and not finding.replay and waits:
            if self._findings:
                self.line(f"step {finding.since_step}: {plain(finding.title)}; looking again")
            return
        self.say(finding)

    def say(self, finding: Finding) -> None:
        if not self._findings or finding.muted or finding.key in self.known or self._is_said(finding):
            return
        self._said[finding.key] = finding.title
        if self.first_to_say(f"{finding.key} {finding.title}"):
            self.block(finding_block(finding, page=self.page_of(finding)))

    def _is_said(self, finding: Finding) -> bool:
        """Once is enough; but all ranks together may show the cause of what one alone could only see."""
        said = self._said.get(finding.key)
        return said is not None and (finding.category != "distributed" or said == finding.title)

    def hit(self, hit: Hit) -> None:
        self._hits += 1
        if self._hits <= MOST_HITS:
            self._clear()
            print(hit_line(hit), file=self._stream, flush=True)
        elif self._hits == MOST_HITS + 1:
            self.line("more hits are recorded and no longer printed")

    def failed(self, where: str, error: BaseException, *, again: bool) -> None:
        said = plain(f"{type(error).__name__}: {error}", 200)
        if isinstance(error, OSError) and error.errno in _NO_ROOM and where.startswith("store: "):
            what = where.removeprefix("store: ")
            later = "" if what == "end of the run" else "; recording is tried again later"
            self.line(f"{what} could not be recorded: {error.strerror}{later}. The training goes on")
            return
        self.line(f"an error inside Tensight ({where}) was held back; the training goes on. {said}")

    def make_room(self) -> None:
        """The script is about to print: the status line goes out of its way."""
        if self._shown:
            self._clear()
            self._stream.flush()

    def _clear(self) -> None:
        if self._shown:
            shown, self._shown = self._shown, 0
            self._stream.write("\r" + " " * shown + "\r")
