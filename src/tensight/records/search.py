"""A hyper-parameter search: its parameters, its trials, its best values."""

from __future__ import annotations

from typing import Literal

import msgspec

TrialState = Literal["running", "complete", "pruned", "failed", "waiting"]
ParameterValue = float | int | str | bool


class TrialRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One trial. `run` is the name of its run directory inside the search's folder."""

    number: int
    state: TrialState
    values: dict[str, ParameterValue] = {}
    value: float | None = None
    reports: tuple[tuple[int, float], ...] = ()  # step, value
    seconds: float = 0.0
    run: str = ""
    reason: str = ""  # why it was pruned or has failed
    started: float = 0.0


class Search(msgspec.Struct, frozen=True, omit_defaults=True):
    """A search as it stands."""

    name: str
    command: str
    target: str
    goal: Literal["maximize", "minimize"]
    parameters: tuple[str, ...]
    wanted: int  # trials in all
    trials: tuple[TrialRow, ...] = ()
    importance: dict[str, float] = {}
    best: int | None = None  # number of the best trial
    best_command: str = ""
    sampler: str = ""
    pruner: str = ""
    storage: str = ""
    seconds: float = 0.0  # that trials have taken, added up
    state: Literal["running", "finished", "stopped"] = "running"
