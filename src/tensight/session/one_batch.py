"""Whether one batch can be learnt: a copy of the process is handed the same batch again and again.

The copy is made between two steps, waits while the training goes on, and is told to run when the training is over. It
runs the user's own loop, and nothing it does is seen outside (see `tensight.replay.isolation`).
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tensight.capture.budget import Budget
from tensight.capture.companion import Companion
from tensight.capture.recorder import Recorder
from tensight.errors import UNDECODABLE
from tensight.frameworks import rewinds
from tensight.records import Depth, Finding, RunEnd, StepRecord
from tensight.replay import copying, isolation
from tensight.replay.copying import Copy, Woken, make_copy
from tensight.session.rewind import become_copy

FILE = "one-batch.json"
"""Where the result lies in the run directory."""

STEPS = 60
MOST_BATCHES = 64 * STEPS  # with accumulation, a step takes several
SECONDS = 20.0  # of its own time, for the copy
PATIENCE = 90.0  # for the training, at its end
NO_LOADER = "the loop takes no batches from a data loader, so the same batch cannot be handed out again"


class Trial(msgspec.Struct, frozen=True, omit_defaults=True):
    """The losses on one batch, step by step; `reason` says why there are none."""

    reason: str = ""
    losses: tuple[float, ...] = ()


def read_trial(folder: Path) -> Trial:
    """What a run knows of it."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Trial)
    except FileNotFoundError:
        return Trial("it was not asked for")
    except (OSError, *UNDECODABLE) as error:
        return Trial(f"{folder / FILE} cannot be read: {error}")


class OneBatch(Companion):
    """Goes along with a training and tries the same batch again in a copy of it."""

    def __init__(self, recorder: Recorder, folder: Path, *, say: Callable[[str], None] = lambda text: None) -> None:
        self._recorder = recorder
        self._folder = folder.absolute()
        self._say = say
        self._rewinds: rewinds.Rewinds | None = None
        self._reason = NO_LOADER
        self._over = False  # nothing more is to be prepared
        self._inside = False  # of a step
        self._trained = False  # a step has trained
        self._asked_of = self._data = 0  # the data sets of the last request, and of the last step that trained
        self._copy: Copy | None = None
        self._woken: Woken | None = None
        self._began = 0.0
        self._losses: list[float] = []
        self._own = os.getpid()

    def started(self) -> None:
        self._find()

    def step_began(self, step: int) -> None:
        self._find()
        self._inside = True

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        self._inside = False
        if record.losses:
            self._trained, self._data = True, self._asked_of
        if self._woken is None:
            return
        if record.loss is not None:
            self._losses.append(record.loss)
        if len(self._losses) >= STEPS or time.monotonic() - self._began > SECONDS:
            self._leave()

    def ending(self) -> None:
        if self._woken is not None or os.getpid() != self._own:
            return
        copy, self._copy = self._copy, None
        if copy is not None:
            self._say("trying to learn one batch, in a copy of the process …")
            answer = copy.wait(PATIENCE) if copy.tell(b"run") else b""
            copy.end()
            trial = _trial(answer)
        else:
            trial = Trial(self._reason)
        if self._rewinds is not None:
            self._rewinds.drop()
        (self._folder / FILE).write_bytes(msgspec.json.encode(_finite(trial)))

    def ended(self, end: RunEnd) -> None:
        if self._copy is not None:
            self._copy.end()

    # in the training

    def _find(self) -> None:
        if self._rewinds is None and not self._over:
            self._rewinds = rewinds.load_imported()
            if self._rewinds is not None:
                self._rewinds.serve_batches(self._asked)
            elif self._recorder.adapters:
                self._stop(f"{self._recorder.adapters[0].name} offers no way to run a step again")

    def _stop(self, reason: str) -> None:
        self._over = True
        self._reason = reason
        if self._rewinds is not None:
            self._rewinds.drop()

    def _asked(self, workers: bool) -> None:
        """Inside the training's request for a batch. An error here must not reach it."""
        if self._over or self._rewinds is None or self._woken is not None or os.getpid() != self._own:
            return
        try:
            if not self._inside:
                self._prepare()
            self._asked_of = self._rewinds.asking()
        except Exception as error:
            self._recorder.failed("one batch", error)

    def _prepare(self) -> None:
        assert self._rewinds is not None
        self._reason = "the script ended before a step could be run again"
        if not self._trained:
            return
        optimizers = sum(kind == "optimizer" for kind, _ in self._recorder.found.parts)
        if optimizers > 1:
            self._stop(f"{optimizers} optimizers work with or against each other, so one loss does not tell")
            return
        refused = self._rewinds.hindrance() or copying.hindrance(self._rewinds.idle_threads())
        if refused:
            self._stop(refused)
            return
        if self._rewinds.asking() != self._data:
            return  # of an evaluation
        made = make_copy(self._recorder.step)
        if isinstance(made, Woken):
            self._enter(made)
            return
        self._copy = made
        self._stop("")

    # in the copy

    def _enter(self, woken: Woken) -> None:
        self._woken = woken
        self._began = time.monotonic()
        try:
            assert self._rewinds is not None
            refused = self._rewinds.enter_copy()
            mapped = isolation.shared_memory()
            if refused or mapped:
                self._leave(refused or f"the training maps {mapped}, and a copy could change it")
            isolation.no_changes_outside(str(self._folder))
            become_copy(self._recorder, self)
            self._recorder.budget = _Light()
            self._rewinds.repeat(MOST_BATCHES)
            atexit.register(self._ended_early)
        except Exception as error:
            self._leave(f"{type(error).__name__}: {error}")

    def _ended_early(self) -> None:
        if os.getpid() != self._own:  # the copy's own exit, not the training's
            self._leave("" if self._losses else "the script ended in the copy before a step was made")

    def _leave(self, reason: str = "") -> None:
        assert self._woken is not None
        trial = _finite(Trial(reason, tuple(self._losses)))
        self._woken.leave(msgspec.json.encode(trial))


class _Light(Budget):
    """Hears the loss and no more."""

    def __init__(self) -> None:
        super().__init__(100)

    def next_depth(self, step: int) -> Depth:
        return Depth.LIGHT


def _trial(answer: bytes | None) -> Trial:
    if answer is None:
        return Trial(f"the copy of the process was not done after {PATIENCE:.0f} s")
    if not answer:
        return Trial("the copy of the process ended without an answer")
    return msgspec.json.decode(answer, type=Trial)


def _finite(trial: Trial) -> Trial:
    """Losses up to the first that is not finite, which JSON cannot carry."""
    for place, value in enumerate(trial.losses):
        if value - value != 0:
            return Trial(f"the loss became {value} in step {place} on it", trial.losses[:place])
    return trial
