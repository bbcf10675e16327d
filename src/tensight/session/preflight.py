"""The first minute of a training: a few steps under full observation, then the checks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tensight.capture.budget import Budget
from tensight.capture.companion import Companion
from tensight.capture.recorder import Recorder
from tensight.records import Depth, Finding, StepRecord
from tensight.replay.copying import memory
from tensight.runs import Run, open_run
from tensight.session import companions
from tensight.session.launch import launch
from tensight.session.one_batch import OneBatch
from tensight.session.preflight_checks import Answer, check
from tensight.session.preflight_checks.running import MEMORY, WAIT
from tensight.session.program import Program
from tensight.session.session import Session
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal

TIMED = 5  # of the steps are hardly watched, so that their time is the training's own
FEW = 10  # with fewer steps than this, all are watched
IDLE = 50  # times as many steps as asked for may go by without any training


@dataclass(frozen=True)
class Preflight:
    """What came out: the run, each check's answer by its name, and the findings."""

    run: Run
    answers: dict[str, Answer]
    findings: tuple[Finding, ...]
    script_exit: int

    @property
    def wrong(self) -> bool:
        """Whether there is a finding, or a check that found something wrong."""
        return bool(self.findings) or any(answer.mark == "bad" for answer in self.answers.values())


def fly(program: Program, folder: Path, *, steps: int, voice: Terminal | None = None) -> Preflight:
    """Run a program for a few steps, and check what was recorded."""
    settings = Settings(
        command=(program.target, *program.arguments),
        run_dir=folder,
        name=program.name,
        budget=100,
        on_finding="continue",
        on_hit="continue",
    )
    terminal = voice or Terminal(findings=False)

    def together(session: Session) -> list[Companion]:
        recorder = session.recorder
        few = FewSteps(recorder, steps)
        recorder.budget = WholeThenTimed(few)
        return [
            *companions.companions(session),
            Stopwatch(recorder),
            few,
            OneBatch(recorder, session.folder, say=terminal.line),
        ]

    ending = launch(program, settings, companions=together, terminal=terminal)
    run = open_run(folder)
    return Preflight(run, check(run), ending.findings, ending.exit_code)


class FewSteps(Companion):
    """Ends the script after so many steps that train; what it evaluates before does not count."""

    def __init__(self, recorder: Recorder, steps: int) -> None:
        self._recorder = recorder
        self.wanted = steps
        self.trained = 0
        self._idle = 0

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        if record.losses:
            self.trained += 1
        else:
            self._idle += 1
        if self.trained >= self.wanted or (not self.trained and self._idle >= IDLE * self.wanted):
            self._recorder.stop(f"{self.trained} steps are done")


class WholeThenTimed(Budget):
    """Every step is watched whole; the last few are hardly watched, for the clock."""

    def __init__(self, few: FewSteps) -> None:
        super().__init__(100)
        self._few = few
        self._timed_from = few.wanted - TIMED if few.wanted >= FEW else few.wanted

    def next_depth(self, step: int) -> Depth:
        return Depth.LIGHT if self._few.trained >= self._timed_from else Depth.ALL


class Stopwatch(Companion):
    """Notes with each step how long it waited for its batch, and how much memory the process holds."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._ended = time.perf_counter()

    def step_began(self, step: int) -> None:
        self._recorder.scalar(WAIT, time.perf_counter() - self._ended)
        try:
            _, resident = memory()
        except OSError:
            return  # systems without /proc do not tell
        self._recorder.scalar(MEMORY, float(resident))

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        self._ended = time.perf_counter()
