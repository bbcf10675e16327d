"""A run: what was started, what of it is watched, how it ended."""

from __future__ import annotations

from typing import Literal

import msgspec

from tensight.records.source import Source

Ended = Literal["running", "finished", "stopped", "failed", "killed"]
ReplayStatus = Literal["exact", "close", "not reproduced", "not possible"]


class RunInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was started. Written once per rank when capture begins."""

    id: str
    command: tuple[str, ...]
    started: float
    framework: str = ""
    framework_version: str = ""
    python: str = ""
    platform: str = ""
    tensight: str = ""
    rank: int = 0
    ranks: int = 1
    pid: int = 0
    cwd: str = ""
    level: str = "watch"
    budget: float = 5.0
    resumes: str = ""  # name of the run that it goes on with, in the same folder
    resumed_after: int = 0  # steps of that run that count


class RunEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a run ended. A run without it is running, or was killed."""

    ended: Ended
    time: float
    script_exit: int | None = None
    steps: int = 0
    watch_cost: float | None = None  # whole time over time without watching
    lost: tuple[str, ...] = ()  # what Tensight could not record, and why
    budget_note: str = ""
    watch_seconds: float = 0.0  # what watching took in all, as estimated


class Gap(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that is not watched."""

    what: str
    reason: str
    remedy: str = ""


class Coverage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was found and how much of it is watched."""

    models: tuple[str, ...] = ()
    optimizers: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    loaders: tuple[str, ...] = ()
    scalers: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    tensors: int = 0
    watched: int = 0
    gaps: tuple[Gap, ...] = ()


class Replay(msgspec.Struct, frozen=True, omit_defaults=True):
    """A bad step that was run again under full observation."""

    step: int
    status: ReplayStatus
    strategy: str = ""  # 'fork at the hit' | 'standing child' | 'graph' | 'next step' | 'in place' | 'shadow'
    reason: str = ""
    seconds: float = 0.0
    memory: int = 0
    operator: str = ""  # the first bad operator: 'aten.sqrt'
    module: str = ""
    phase: str = ""
    source: Source | None = None
    inputs: tuple[str, ...] = ()  # each input in words: 'float32[32], 3 values are 0'
    facts: dict[str, float | int | str | None] = {}
    then: tuple[str, ...] = ()
    tensors: str = ""  # safetensors file with the operator's real inputs, relative to the run
