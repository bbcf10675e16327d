"""Which lines of the user's code run while steps are clocked, and from which line of the loop they were called."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter, defaultdict
from types import FrameType
from typing import Protocol

from tensight.frameworks.source import is_user_file, source_of
from tensight.records.timing import LineTime, LoopLine, Part5

INTERVAL = 0.002  # between two samples of the running line
SWITCH = 2e-5
MOST_LINES = 60
MOST_LOOP = 20
DEEPEST = 40
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_IN_PASSES = ("backward", "update")
_Line = tuple[str, int, str]


class HasParts(Protocol):
    """The clock of a training's thread."""

    thread: int

    @property
    def part(self) -> Part5: ...


class Sampler(threading.Thread):
    """Looks every few milliseconds which line of the user's code runs in the training's thread, and in which part."""

    def __init__(self, clock: HasParts) -> None:
        super().__init__(name="tensight-samples", daemon=True)
        self.clock = clock
        self.stacks: Counter[tuple[tuple[_Line, ...], Part5]] = Counter()
        self.samples = 0
        self.seconds = 0.0
        self._over = threading.Event()
        self._interval = sys.getswitchinterval()

    def start(self) -> None:
        # otherwise a sample is taken where the training lets go of the interpreter next, and not where it is
        sys.setswitchinterval(SWITCH)
        super().start()

    def run(self) -> None:
        while not self._over.wait(INTERVAL):
            frame = sys._current_frames().get(self.clock.thread)
            part = self.clock.part
            ours = frame is not None and frame.f_code.co_filename.startswith(_OWN)
            stack = () if ours else user_stack(frame)
            del frame
            if ours:
                continue
            self.samples += 1
            if stack:
                self.stacks[stack, part] += 1
        self.seconds = time.thread_time()

    def stop(self) -> None:
        self._over.set()
        if self.is_alive():
            self.join(5)
        sys.setswitchinterval(self._interval)

    def lines(self) -> tuple[LineTime, ...]:
        """The lines that ran, the most frequent first."""
        counts: Counter[tuple[_Line, Part5]] = Counter()
        for (stack, part), count in self.stacks.items():
            counts[stack[0], part] += count
        return tuple(
            LineTime(source_of(*line), count / self.samples, part, count)
            for (line, part), count in counts.most_common(MOST_LINES)
        )

    def loop(self) -> tuple[LoopLine, ...]:
        """Lines of the training loop outside of all parts, with what they call, the most frequent first."""
        return loop_lines(self.stacks)


def loop_lines(stacks: Counter[tuple[tuple[_Line, ...], Part5]]) -> tuple[LoopLine, ...]:
    """Samples outside of all parts by the line of the loop from which they were reached.

    The loop is the innermost function that is also met above backward passes and updates; where none was met, the
    outermost one.

    >>> main, helper, inner = ("a.py", 9, "main"), ("a.py", 3, "draw"), ("a.py", 4, "draw")
    >>> stacks = Counter({((main,), "update"): 5, ((helper, main), "rest"): 2, ((inner, main), "rest"): 3})
    >>> [(one.source.line, one.samples, one.hottest.line, one.hottest_samples) for one in loop_lines(stacks)]
    [(9, 5, 4, 3)]
    """
    loops = {(file, name) for stack, part in stacks if part in _IN_PASSES for file, _, name in stack}
    below: dict[_Line, Counter[_Line]] = defaultdict(Counter)
    for (stack, part), count in stacks.items():
        if part == "rest":
            at = next((line for line in stack if (line[0], line[2]) in loops), stack[-1])
            below[at][stack[0]] += count
    rows = []
    for line, inside in below.items():
        hottest, most = inside.most_common(1)[0]
        rows.append(LoopLine(source_of(*line), sum(inside.values()), source_of(*hottest), most))
    return tuple(sorted(rows, key=lambda row: -row.samples)[:MOST_LOOP])


def user_stack(frame: FrameType | None) -> tuple[_Line, ...]:
    """The user's lines that run, the innermost first."""
    found: list[_Line] = []
    while frame is not None and len(found) < DEEPEST:
        code = frame.f_code
        if is_user_file(code.co_filename):
            found.append((code.co_filename, frame.f_lineno or code.co_firstlineno, code.co_name))
        frame = frame.f_back
    return tuple(found)


def user_line(frame: FrameType | None) -> _Line | None:
    """The innermost of the user's lines that run."""
    while frame is not None:
        code = frame.f_code
        if is_user_file(code.co_filename):
            return code.co_filename, frame.f_lineno or code.co_firstlineno, code.co_name
        frame = frame.f_back
    return None
