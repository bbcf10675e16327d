"""Notices a training that does not get on, and a rank that is lost, and says where every rank is.

A thread of its own renews this rank's beat every two seconds; it costs nothing between. Only while no step ends does it
look at the training's stack: soon, since a collective may give up before anybody calls it a stall.
"""

from __future__ import annotations

import linecache
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from tensight.capture.companion import Companion
from tensight.records import Finding, RunEnd, StepRecord
from tensight.runs.beats import EVERY, Beat, Frame, read_all, table, write

if TYPE_CHECKING:
    from tensight.capture.recorder import Recorder

STALL = 30.0  # seconds without a step after which it is said, unless TENSIGHT_STALL says another number, or
LOOK = 4.0  # seconds after which it is looked where the training is
TIMES = 10.0  # so many times the longest of the last steps, whichever is more
RECENT = 20
PACKAGE = str(Path(__file__).parents[1]) + os.sep
LIBRARIES = (f"site-packages{os.sep}", f"dist-packages{os.sep}", f"{os.sep}lib{os.sep}python3")


def patience(environ: Mapping[str, str] = os.environ) -> float:
    """After how many seconds without a step a training has stalled.

    >>> patience({}), patience({"TENSIGHT_STALL": "300"}), patience({"TENSIGHT_STALL": "soon"})
    (30.0, 300.0, 30.0)
    """
    try:
        return max(0.1, float(environ.get("TENSIGHT_STALL", STALL)))
    except ValueError:
        return STALL


class Stalling(Companion):
    """Watches over the ranks. `paused` tells whether this one holds because it was told to; `rank` is None while it is
    not known which one it is. With `late` it begins only where several ranks have made a step."""

    def __init__(
        self,
        recorder: Recorder,
        folder: Path,
        say: Callable[[str], None],
        *,
        rank: Callable[[], int | None] = lambda: 0,
        ranks: Callable[[], int] = lambda: 1,
        paused: Callable[[], bool] = lambda: False,
        notify: Callable[[dict[str, object]], None] = lambda news: None,
        every: float = EVERY,
        stall: float | None = None,
        late: bool = False,
    ) -> None:
        self._recorder = recorder
        self._folder = folder
        self._say = say
        self._rank = rank
        self._ranks = ranks
        self._paused = paused
        self._notify = notify
        self._every = every
        self._stall = patience() if stall is None else stall
        self._late = late
        self._stuck: tuple[int, tuple[Frame, ...]] = (-1, ())  # the step in which it was looked at last, and its stack
        self._thread_id = threading.get_ident()
        self._pid = os.getpid()
        self._end = threading.Event()
        self._since = time.time()
        self._step = -1
        self._longest: deque[float] = deque(maxlen=RECENT)
        self._said_at = -1
        self._said_gone: set[int] = set()
        self._thread = threading.Thread(target=self._watch, name="tensight-stalling", daemon=True)

    def started(self) -> None:
        if not self._late:
            self._thread.start()

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        if self._late and self._ranks() > 1:
            self._late = False
            self._thread.start()

    def ended(self, end: RunEnd) -> None:
        if os.getpid() != self._pid or self._late:
            return
        self._end.set()
        self._thread.join(5.0)
        self._beat(ended=True)

    def _watch(self) -> None:
        while not self._end.wait(self._every):
            try:
                self._look()
            except Exception as error:
                self._recorder.failed("stalls", error)

    def _look(self) -> None:
        now = time.time()
        step, paused = self._recorder.step, self._paused()
        if step != self._step or paused:
            if step != self._step and self._step > 0 and not paused:  # the first step pays for much else
                self._longest.append((now - self._since) / max(1, step - self._step))
            self._step, self._since = step, now
        waited = now - self._since
        late = waited > self._limit()
        look = late or waited > max(LOOK, TIMES * max(self._longest, default=0.0))
        self._beat(paused=paused, look=look, stalled=late)
        if late and self._said_at != step:
            self._said_at = step
            self._tell_stall(now)
        if self._ranks() > 1:
            self._tell_gone(now)

    def _limit(self) -> float:
        return max(self._stall, TIMES * max(self._longest, default=0.0))

    def _beat(self, *, paused: bool = False, ended: bool = False, look: bool = False, stalled: bool = False) -> None:
        rank = self._rank()
        if rank is None:
            return
        stack = stack_of(self._thread_id) if look else ()
        if look:
            self._stuck = (self._recorder.step, stack)
        elif ended and self._stuck[0] == self._recorder.step:
            stack = self._stuck[1]  # what it was in when it gave up
        operation, place = describe(stack)
        write(
            self._folder,
            Beat(
                rank=rank,
                ranks=self._ranks(),
                pid=self._pid,
                host=socket.gethostname(),
                time=time.time(),
                step=self._recorder.step,
                since=self._since,
                paused=paused,
                ended=ended,
                operation=operation,
                place=f"{os.path.basename(place.file)}:{place.line}" if place is not None else "",
                code=place.code if place is not None else "",
                stack=stack,
                stalled=stalled,
            ),
        )

    def _tell_stall(self, now: float) -> None:
        beats, rank = read_all(self._folder), self._rank()
        if rank is None or any(one.rank < rank and not one.gone(now) and not one.ended for one in beats):
            return  # a lower rank says it for all
        waited = now - self._since
        self._say(f"no step has ended for {waited:.0f} s; every rank and what it is in:\n{table(beats, now)}")
        self._notify({"what": "stall", "step": self._recorder.step, "title": f"no step has ended for {waited:.0f} s"})

    def _tell_gone(self, now: float) -> None:
        for one in read_all(self._folder):
            if one.gone(now) and one.rank not in self._said_gone:
                self._said_gone.add(one.rank)
                doing = f", last seen in {one.operation} ({one.place})" if one.operation else ""
                self._say(
                    f"rank {one.rank} is lost: its process {one.pid} on {one.host} has ended without a word in step "
                    f"{one.step}{doing}"
                )


def stack_of(thread: int) -> tuple[Frame, ...]:
    """The calls of a thread, the innermost last; Tensight's own are left out."""
    frame: FrameType | None = sys._current_frames().get(thread)
    frames: list[Frame] = []
    while frame is not None and len(frames) < 100:
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            line = linecache.getline(code.co_filename, frame.f_lineno).strip()
            frames.append(Frame(code.co_filename, frame.f_lineno, code.co_name, line[:200]))
        frame = frame.f_back
    while frames and _is_library(frames[-1].file) and any(not _is_library(one.file) for one in frames):
        frames.pop()  # how the script was started is of no interest
    return tuple(reversed(frames))


def describe(stack: tuple[Frame, ...]) -> tuple[str, Frame | None]:
    """The operation that a stack is in, and the user's own line that called it.

    >>> user = Frame("/home/me/train.py", 31, "main", "dist.all_reduce(x)")
    >>> describe((user, Frame("/x/site-packages/torch/distributed/c10d.py", 9, "all_reduce")))[0]
    'torch.distributed.c10d.all_reduce'
    >>> describe((user,)) == ("dist.all_reduce(x)", user)
    True
    """
    place = next((one for one in reversed(stack) if not _is_library(one.file)), None)
    if place is None:
        return (stack[-1].function if stack else "", None)
    called = stack[stack.index(place) + 1 :]
    named = [one for one in called if "-packages" in one.file and _is_public(one.function)] or list(called)
    if not named:
        return place.code or place.function, place
    deepest = named[-1]
    inside = deepest.file.rpartition(f"-packages{os.sep}")[2]
    module = inside if inside != deepest.file else Path(deepest.file).name
    words = module.removesuffix(".py").removesuffix(f"{os.sep}__init__").replace(os.sep, ".")
    return f"{words}.{deepest.function}", place


def _is_public(function: str) -> bool:
    return function.endswith("__") or not (function.startswith("_") or function in ("wrapper", "decorate_context"))


def _is_library(file: str) -> bool:
    return any(mark in file for mark in LIBRARIES) or file.startswith("<")
