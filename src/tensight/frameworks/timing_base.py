"""What every framework's timing does alike: going through a plan's windows step by step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensight.frameworks.patches import Patches
from tensight.frameworks.timing import Clock, Done, Pauses, Plan, Steps
from tensight.frameworks.timing_lines import Sampler
from tensight.records.timing import Window

FEW = 3  # rounds after which it is clear that there is no optimizer, or no backward pass


class StepTiming:
    """Follows a script from step to step. A framework says when a step is over, and opens and closes its windows."""

    def __init__(
        self,
        plan: Plan,
        *,
        trace_file: Path | None = None,
        go_on: bool = False,
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self.plan = plan
        self.clock = Clock()
        self.pauses = Pauses()
        self.steps = Steps(plan, self.clock, self._turn)
        self.on = False
        self._patches = Patches()
        self._trace_file = trace_file
        self._go_on = go_on
        self._failed = failed
        self._sampler: Sampler | None = None
        self._sampled: Sampler | None = None
        self._ending = False  # the step ends with the next batch, forward or backward pass
        self._fresh = True

    def _started(self) -> None:
        """Everything is put on: the first window begins."""
        self.pauses.attach()
        self.on = True
        self.clock.cut()
        if not self.plan.warm:
            self.steps.window = "clock"
            self._turn("clock")

    def detach(self) -> None:
        """Take off everything; what runs is stopped first."""
        self.on = False
        self._stop_windows()
        self.pauses.detach()
        self._patches.restore()

    def _begins(self) -> None:
        """A part begins: what the program did before its first step is no part of it."""
        if self._fresh:
            self._fresh = False
            self.clock.cut()

    def boundary(self) -> None:
        """A batch, a forward or a backward pass begins: if the step's update is done, the step is over."""
        if not self._ending:
            return
        self._ending = False
        if self.steps.window is not None:
            self.clock.settle()
            collecting, collections = self.pauses.cut()
            facts = {"collecting": collecting, "collections": collections, **self._facts()}
            self.clock.skip()
            self.steps.ended(facts)
            self._next_step()
        if self.steps.window is None and not self._go_on:
            self.on = False
            raise Done

    def _turn(self, window: Window | None) -> None:
        """A new window begins."""
        try:
            self._stop_windows()
            self.pauses.on = window == "clock"
            self.clock.each_part = window == "clock"
            if window == "clock":
                self._sampler = Sampler(self.clock)
                self._sampler.start()
            self._open(window)
        except Exception as error:
            self._failed(f"profiling, {window}", error)

    def _stop_windows(self) -> None:
        if self._sampler is not None:
            self._sampler.stop()
            self._sampled, self._sampler = self._sampler, None
        self._close()

    # what a framework adds

    def _facts(self) -> dict[str, Any]:
        """What is known of the step that has ended."""
        return {}

    def _next_step(self) -> None:
        """Another step begins."""

    def _open(self, window: Window | None) -> None:
        """A window begins; None: all is over."""

    def _close(self) -> None:
        """Whatever a window has begun ends."""
