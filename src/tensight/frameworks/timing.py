"""What timing needs on every framework: the plan of a profile, the clock of a step's parts, pauses.

Nothing here knows a framework. All of it runs in the training process and is guarded by those who call it.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tensight.frameworks.source import source_of
from tensight.frameworks.timing_delay import Delay
from tensight.frameworks.timing_lines import user_line
from tensight.records.timing import Collecting, Part5, Profile, StepTime, Window

now = time.perf_counter


@dataclass(frozen=True)
class Plan:
    """Which steps are used for what: after the warm-up some are clocked, some traced, some located."""

    warm: int = 5
    clock: int = 20
    trace: int = 5
    locate: int = 2
    least_seconds: float = 0.5  # that are clocked, unless `most_clock` steps have gone by
    most_clock: int = 200
    most_seconds: float = 60.0  # of clocked steps

    def enough(self, steps: int, seconds: float) -> bool:
        """Whether so many clocked steps of so many seconds will do.

        >>> Plan(clock=20).enough(20, 3.0), Plan(clock=20).enough(20, 0.1), Plan(clock=20).enough(4, 90.0)
        (True, False, True)
        """
        if seconds > self.most_seconds and steps >= 3:
            return True
        return steps >= self.clock and (seconds >= self.least_seconds or steps >= self.most_clock)


class Timing(Protocol):
    """A framework's way to take a profile."""

    def attach(self) -> None: ...
    def detach(self) -> None: ...
    def profile(self) -> Profile: ...


class Done(SystemExit):
    """Ends the script when the window is over."""

    def __init__(self) -> None:
        super().__init__(0)


@dataclass
class Clock:
    """Attributes the time of the training's thread to the parts of a step; what measuring takes is left out.

    Between calls of parts the time goes to `idle`: after a forward pass with gradients that is 'forward' until the
    backward pass begins, since that is where the loss is computed; otherwise 'rest'.
    """

    totals: dict[Part5, float] = field(default_factory=lambda: dict.fromkeys(_PARTS, 0.0))
    idle: Part5 = "rest"
    own: float = 0.0
    data_cpu: float = 0.0
    delays: dict[Part5, float] = field(default_factory=lambda: dict.fromkeys(_PARTS, 0.0))
    began: float = field(default_factory=now)
    mark: float = field(default_factory=now)
    stack: list[Part5] = field(default_factory=list)
    thread: int = field(default_factory=threading.get_ident)
    process: int = field(default_factory=os.getpid)
    delay: Delay = field(default_factory=Delay)
    each_part: bool = True  # look at every part for waits for a processor; otherwise once a step
    _cpu: float = 0.0
    _delay: float = 0.0
    _step_cpu: float = 0.0
    _step_process: float = 0.0

    @property
    def part(self) -> Part5:
        """Where the training is now."""
        return self.stack[-1] if self.stack else self.idle

    def mine(self) -> bool:
        """Whether the caller is the training's own thread: loader workers are forked with all of this."""
        return threading.get_ident() == self.thread and os.getpid() == self.process

    def enter(self, part: Part5) -> None:
        at = now()
        self.totals[self.part] += at - self.mark
        if self.each_part:
            self._had_no_processor()
        self.stack.append(part)
        if part == "data" and len(self.stack) == 1:
            self._cpu = time.thread_time()
        if part != "forward":
            self.idle = "rest"
        self.mark = now()
        self.own += self.mark - at

    def leave(self, idle: Part5 = "rest") -> None:
        at = now()
        if self.stack:
            if self.each_part:
                self._had_no_processor()
            part = self.stack.pop()
            self.totals[part] += at - self.mark
            if not self.stack:
                self.idle = idle
                if part == "data":
                    self.data_cpu += time.thread_time() - self._cpu
        self.mark = now()
        self.own += self.mark - at

    def _had_no_processor(self) -> None:
        """What the thread has waited for a processor since the last look belongs to the part it is in."""
        waited = self.delay.seconds()
        self.delays[self.part] += waited - self._delay
        self._delay = waited

    def settle(self) -> None:
        """Give the time since the last mark to the part it was spent in; what follows is ours, until `skip`."""
        at = now()
        self.totals[self.part] += at - self.mark
        self.mark = at

    def skip(self) -> None:
        """The time since the last mark was spent by Tensight."""
        at = now()
        self.own += at - self.mark
        self.mark = at

    def cut(self) -> dict[str, float]:
        """A step has ended: its parts; the next begins."""
        at = now()
        self.totals[self.part] += at - self.mark
        parts: dict[str, float] = dict(self.totals.items())
        self._had_no_processor()
        parts.update({f"{part}_delay": waited for part, waited in self.delays.items()})
        parts["own"], parts["data_cpu"] = self.own, self.data_cpu
        parts["seconds"] = sum(self.totals.values())
        cpu, process = time.thread_time(), time.process_time()
        parts["cpu"], self._step_cpu = cpu - self._step_cpu, cpu
        parts["delay"] = sum(self.delays.values())
        parts["process_cpu"], self._step_process = process - self._step_process, process
        self.totals = dict.fromkeys(_PARTS, 0.0)
        self.delays = dict.fromkeys(_PARTS, 0.0)
        self.own = self.data_cpu = 0.0
        self.idle = "rest"
        self.began = self.mark = now()
        return parts


_PARTS: tuple[Part5, ...] = ("data", "forward", "backward", "update", "rest")


class Pauses:
    """Times Python's garbage collector."""

    def __init__(self) -> None:
        self.seconds = self.longest = 0.0
        self.collections = self.full = self.asked = 0
        self.step_seconds = 0.0
        self.step_collections = 0
        self.on = False
        self._began = 0.0
        self._places: Counter[tuple[str, int, str]] = Counter()

    def attach(self) -> None:
        gc.callbacks.append(self._called)

    def detach(self) -> None:
        if self._called in gc.callbacks:
            gc.callbacks.remove(self._called)

    def _called(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = now()
            return
        if not self.on or not self._began:
            return
        took = now() - self._began
        self._began = 0.0
        self.seconds += took
        self.step_seconds += took
        self.longest = max(self.longest, took)
        self.collections += 1
        self.step_collections += 1
        self.full += info.get("generation") == 2
        line = user_line(sys._getframe(1))
        if line is not None:
            asked = "collect(" in source_of(*line).code
            self.asked += asked
            self._places[line] += 1000 if asked else 1

    def cut(self) -> tuple[float, int]:
        """Of the step that has ended."""
        found = self.step_seconds, self.step_collections
        self.step_seconds, self.step_collections = 0.0, 0
        return found

    def record(self) -> Collecting:
        place = self._places.most_common(1)
        source = source_of(*place[0][0]) if place else None
        return Collecting(self.collections, self.seconds, self.full, self.longest, self.asked, source)


class Steps:
    """Counts steps through the windows of a plan and keeps what each took."""

    def __init__(self, plan: Plan, clock: Clock, turn: Callable[[Window | None], None]) -> None:
        self.plan = plan
        self.clock = clock
        self.window: Window | None = "warm"
        self.number = 0
        self.times: list[StepTime] = []
        self._in_window = 0
        self._seconds = 0.0
        self._turn = turn  # told of each new window; None: all is over

    def ended(self, facts: dict[str, Any]) -> None:
        """A step has ended."""
        if self.window is None:
            return
        parts = self.clock.cut()
        every: dict[str, Any] = {**parts, **facts}
        self.times.append(StepTime(step=self.number, window=self.window, **every))
        self.number += 1
        self._in_window += 1
        self._seconds += parts["seconds"]
        following = self._following()
        if following != self.window:
            self.window = following
            self._in_window, self._seconds = 0, 0.0
            self._turn(following)
            self.clock.skip()

    def _following(self) -> Window | None:
        plan, count = self.plan, self._in_window
        order: list[tuple[Window, bool]] = [
            ("warm", count >= plan.warm),
            ("clock", plan.enough(count, self._seconds)),
            ("trace", count >= plan.trace),
            ("locate", count >= plan.locate),
        ]
        sizes = {"warm": plan.warm, "clock": plan.clock, "trace": plan.trace, "locate": plan.locate}
        place = next(index for index, (name, _) in enumerate(order) if name == self.window)
        if not order[place][1]:
            return self.window
        for name, _ in order[place + 1 :]:
            if sizes[name]:
                return name
        return None
