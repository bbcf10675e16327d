"""Rewind in a session: on trouble the bad step is run again, in a copy, with every operator in view."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tensight import children
from tensight.capture.companion import Companion
from tensight.capture.recorder import Recorder
from tensight.diagnosis import Engine
from tensight.frameworks import rewinds
from tensight.frameworks.adapter import Adapter
from tensight.records import Depth, Finding, Replay, RunEnd, StepRecord
from tensight.replay.rewinder import Rewinder
from tensight.replay.shadowing import Shadowing
from tensight.session.kept_tensors import KeptTensors

SHARE = 0.2
"""The part of the budget that being ready for a rewind may take."""

MOST_BUDGET = 5.0
"""Percent that share is taken of: who lets watching cost more asks to see more, not to be ready more often."""

SIZED_AT = 1  # the step after which optimizers have their states, so that a copy's size is known

_SPOILT = frozenset({"gradient", "weight", "loss"})


class Rewind(Companion):
    """Goes along with a recorder and hands it what a second look at a bad step has shown."""

    def __init__(
        self,
        recorder: Recorder,
        folder: Path,
        *,
        budget: float = 5.0,
        most: int = 8,
        memory_limit: int | None = None,
        stopping: bool = False,
        say: Callable[[str], None] = lambda text: None,
        show_memory: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._recorder = recorder
        self._folder = folder
        self._budget = budget
        self._most = most
        self._memory_limit = memory_limit
        self._stopping = stopping  # the run ends at its first trouble
        self._silenced: Silenced | None = None
        self._show_memory = show_memory
        self._say = say
        self._rewinder: Rewinder | None = None
        self._none = ""  # why there is no rewinder
        self._none_of = 0  # so many frameworks were imported when that was found; 0: it holds for good
        self._told = False  # of that
        self._made: list[tuple[Adapter, Shadowing]] = []
        self._shadowing: Shadowing | None = None  # in place of a rewinder, where an adapter runs steps again itself
        self._shadowed = False  # the trouble that is there now was looked at

    def started(self) -> None:
        children.prepare()
        self._ready()

    def step_began(self, step: int) -> None:
        rewinder = self._ready()
        if rewinder is not None:
            rewinder.began(step)

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        bad = self._trouble(record, findings)
        if self._shadow() is not None:
            self._look_by_shadow(record, bad)
            return
        rewinder = self._ready()
        if rewinder is None:
            if bad and self._none and not self._told:
                self._told = True
                self._recorder.replayed(Replay(step=record.step, status="not possible", reason=self._none))
            return
        if record.step == SIZED_AT and self._memory_limit is not None and self._is_too_large(rewinder):
            return
        self._show_memory(rewinder.memory)
        clean = not bad and record.depth >= Depth.GRADIENTS
        rewinder.ended(record.step, record.losses, trouble=bad, clean=clean)

    def _shadow(self) -> Shadowing | None:
        """Who runs a step of this training again by itself: the adapter of the framework that really trains."""
        if self._shadowing is None:
            for adapter in self._recorder.adapters:
                shadow = getattr(adapter, "shadow", None)
                if shadow is not None and shadow.copier is None:
                    name = f"rank-{self._recorder.rank}"
                    made = Shadowing(shadow, self._folder, name=name, most=self._most)
                    shadow.copier, shadow.follow = made.in_copy, made.follow
                    self._made.append((adapter, made))
            found = next((made for adapter, made in self._made if getattr(adapter, "trains", False)), None)
            if found is not None:
                self._shadowing = found
                rewinder, self._rewinder = self._rewinder, None
                if rewinder is not None:
                    rewinder.ending()  # another framework is imported too, and does not train
        return self._shadowing

    def _look_by_shadow(self, record: StepRecord, bad: bool) -> None:
        if bad and not self._shadowed and self._shadowing is not None:
            self._recorder.replayed(self._shadowing.look_again(record.step, record.losses))
        if bad or record.depth >= Depth.GRADIENTS:
            self._shadowed = bad

    def _is_too_large(self, rewinder: Rewinder) -> bool:
        found = rewinds.load_imported()
        size = found.size() if found is not None else 0
        if self._memory_limit is None or size <= self._memory_limit:
            return False
        self._none = f"a copy of the state takes {size:,} bytes, more than the memory limit of {self._memory_limit:,}"
        self._say(f"no rewind: {self._none}")
        rewinder.ending()
        self._rewinder = None
        return True

    def ending(self) -> None:
        """The script is over; conclusions follow."""
        if self._rewinder is None:
            return
        silenced = self._silenced
        self._rewinder.ending()
        if silenced is not None:
            # the script ended while it ran the bad step again: the others have not heard of the end
            self._recorder.step += 1
            for companion in self._recorder.companions:
                if companion is not self:
                    companion.ending()

    def ended(self, end: RunEnd) -> None:
        self._rewinder = None

    @property
    def memory(self) -> int:
        """Bytes of the training's state that are kept."""
        return 0 if self._rewinder is None else self._rewinder.memory

    def _ready(self) -> Rewinder | None:
        if self._shadow() is not None:
            return None
        if self._rewinder is None and (not self._none or self._none_of not in (0, len(self._recorder.adapters))):
            found = rewinds.load_imported()
            if found is None:
                watched = [adapter.name for adapter in self._recorder.adapters]
                self._none = f"{watched[0]} offers no way to run a step again" if watched else ""
                self._none_of = len(watched)
                return None
            self._none = ""
            self._rewinder = Rewinder(
                found,
                self._folder,
                publish=self._recorder.replayed,
                become_copy=self._become_copy,
                report=self._recorder.failed,
                share=SHARE * min(self._budget, MOST_BUDGET) / 100,
                most=self._most,
                say=self._say,
                name=f"rank-{self._recorder.rank}",
                now=lambda: self._recorder.step,
                keeper=KeptTensors(self._recorder, self._folder),
                stopping=self._stopping,
                hold=lambda stage: self._hold(found, stage),
            )
        return self._rewinder

    def _trouble(self, record: StepRecord, findings: Sequence[Finding]) -> bool:
        """Whether a loss, a gradient that was used or a weight is not finite, or a finding says so."""
        if any(not math.isfinite(value) for value in record.losses):
            return True
        if any(finding.category == "numeric-nonfinite" for finding in findings):
            return True
        engine = self._recorder.engine
        left_out = engine.case.trouble.left_out if isinstance(engine, Engine) else None
        if left_out is not None and left_out.step == record.step:
            return True
        skipped = any(event.values.get("skipped") or event.values.get("overflow") for event in record.events)
        tensors = self._recorder.tensors
        for seen in record.observations:
            if seen.stats.bad and seen.tensor in tensors:
                kind = tensors[seen.tensor].kind
                if kind in _SPOILT and not (skipped and kind == "gradient"):
                    return True
        return False

    def _become_copy(self) -> None:
        become_copy(self._recorder, self)

    def _hold(self, found: rewinds.Rewinds, stage: str) -> None:
        """The step is run again in this very process before the run ends: nobody else is to hear of it."""
        recorder = self._recorder
        if stage == "wait":
            recorder.holds = True
            found.leave_out_update()
        elif stage == "begin":
            self._say("running the bad step again in this process, then the run ends")
            self._silenced = Silenced(
                recorder, [one for one in recorder.companions if one is self or one.wants_gradients]
            )
        else:
            if self._silenced is not None:
                self._silenced.over()
            self._silenced = None
            recorder.holds = False
            recorder.stop(recorder.stopping or "a bad step was run again in this process")


class Silenced:
    """A recorder that keeps its clock while nobody hears it, save some companions; until `over`."""

    def __init__(self, recorder: Recorder, companions: Sequence[Companion]) -> None:
        self._recorder = recorder
        self._before = (recorder.writer, recorder.engine, recorder._voice, recorder.companions)
        self._steps = recorder.step
        silence: Any = _Silence()
        recorder.sleeps = False
        recorder.writer = recorder.engine = recorder._voice = silence
        recorder.companions = list(companions)

    def over(self) -> None:
        recorder = self._recorder
        recorder.writer, recorder.engine, recorder._voice, recorder.companions = self._before
        recorder.step = self._steps - 1  # the step that ends now is none


def become_copy(recorder: Recorder, companion: Companion) -> None:
    """In a copy: the recorder keeps its clock and goes on, but nobody hears it, save one companion."""
    Silenced(recorder, [companion])
    for adapter in recorder.adapters:
        resume = getattr(adapter, "resume_in_copy", None)
        if resume is not None:
            resume()


class _Silence:
    """Takes every call and answers nothing."""

    lost: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _nothing


def _nothing(*args: object, **kwargs: object) -> None:
    return None
