"""Runs the user's program and takes its profile: the heart of `tensight profile`."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

import tensight
from tensight.frameworks import timings
from tensight.frameworks.timing import Done, Plan, Timing
from tensight.profiling import Advice, Reading, advise, files
from tensight.records import Finding, RunEnd, RunInfo, StepRecord
from tensight.records.timing import Profile, Tried
from tensight.session.importing import Importing
from tensight.session.program import Program
from tensight.session.session import ended_word
from tensight.session.settings import rank, ranks
from tensight.store import Writer

QUIET = {"KINETO_LOG_LEVEL": "99", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # the profiler tells of its stages otherwise


@dataclass(frozen=True)
class Taken:
    """A profile that was taken, what it advises, and how the script ended."""

    folder: Path
    profile: Profile
    advice: tuple[Advice, ...]
    exit_code: int
    trouble: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        first = self.profile.steps[0].step if self.profile.steps else 0
        return tuple(advice.finding(first) for advice in self.advice)


def take(
    program: Program,
    folder: Path,
    *,
    plan: Plan,
    changes: Sequence[str] = (),
    go_on: bool = False,
) -> Taken:
    """Run a program in this process, with the plan's windows, and write its profile into a run directory."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    number, count = rank(), ranks()
    if count > 1:
        # ranks wait for each other: all must go through the windows step by step, whatever their clocks say
        plan = replace(plan, least_seconds=0.0, most_seconds=float("inf"))
    trouble: list[str] = []
    found: list[Timing] = []
    started = time.time()
    pid = os.getpid()

    def failed(where: str, error: BaseException) -> None:
        trouble.append(f"{where}: {type(error).__name__}: {error}")

    def imported(name: str) -> None:
        if os.getpid() != pid:
            return
        target = files.trace_file(folder, number)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            timing = timings.load(
                name, plan, trace_file=target if plan.trace else None, changes=changes, go_on=go_on, failed=failed
            )
            timing.attach()
            found.append(timing)
        except Exception as error:
            failed(f"attaching to {name}", error)
            print(f"tensight: this training is not profiled: {trouble[-1]}", file=sys.stderr)

    importing = Importing(list(timings.TIMINGS), imported)
    importing.__enter__()
    outcome = program.run()
    importing.stop()
    if os.getpid() != pid:
        os._exit(outcome.exit_code & 0xFF)  # a child that the script forked; the profile is its parent's
    taken: list[Profile] = []
    for timing in found:
        try:
            timing.detach()
            taken.append(timing.profile())
        except Exception as error:
            failed("reading the profile", error)
    profile = max(taken, key=lambda one: len(one.steps), default=Profile())
    profile = msgspec.structs.replace(
        profile,
        command=(program.target, *program.arguments),
        rank=number,
        ranks=count,
        notes=(*profile.notes, *trouble),
    )
    advice = tuple(advise(Reading(profile)))
    stopped = isinstance(outcome.error, Done) or outcome.interrupted
    crashed = outcome.error is not None and not stopped
    result = Taken(folder, profile, advice, outcome.exit_code, tuple(trouble))
    ended = ended_word(outcome.exit_code, interrupted=outcome.interrupted, stopped=False, crashed=crashed)
    _write(result, started, ended)
    return result


def _write(taken: Taken, started: float, ended: str) -> None:
    profile = taken.profile
    info = RunInfo(
        id=taken.folder.name,
        command=profile.command,
        started=started,
        framework=profile.framework,
        framework_version=profile.version,
        python=platform.python_version(),
        platform=platform.platform(),
        tensight=tensight.__version__,
        rank=profile.rank,
        ranks=profile.ranks,
        pid=os.getpid(),
        cwd=os.getcwd(),
    )
    writer = Writer(taken.folder, info)
    at = started
    for step in profile.steps:
        at += step.seconds + step.own
        scalars = {f"time/{part}": getattr(step, part) for part in ("data", "forward", "backward", "update", "rest")}
        writer.step(StepRecord(step.step, at, step.seconds, step.own, depth=0, scalars=scalars))
    writer.findings(taken.findings)
    reading = Reading(profile)
    cost = 1 + reading.own / reading.seconds if reading.seconds else None
    own = sum(step.own for step in profile.steps)
    writer.end(
        RunEnd(ended, time.time(), taken.exit_code, len(profile.steps), cost, watch_seconds=own)  # type: ignore[arg-type]
    )
    writer.close()
    files.write(taken.folder, profile)


def store_tried(folder: Path, profile: Profile, tried: Sequence[Tried]) -> Profile:
    """Add what was tried to a profile in its run directory."""
    whole = msgspec.structs.replace(profile, tried=tuple(tried))
    files.write(folder, whole)
    return whole
