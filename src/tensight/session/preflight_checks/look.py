"""What checks look at, and how they answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tensight.diagnosis.case import Case
from tensight.diagnosis.ledger import Entry
from tensight.records import Event, Observation, StepRecord, TensorInfo
from tensight.runs import Run
from tensight.session.one_batch import Trial, read_trial

Mark = Literal["ok", "look", "bad", "unknown"]
"""Fine; worth a look; wrong; not known or not tried."""


@dataclass(frozen=True)
class Answer:
    """What a check has to say: a mark, a sentence, and what to do about it."""

    mark: Mark
    says: str
    do: str = ""


class Look:
    """A run's first steps, and the questions that checks share."""

    def __init__(self, run: Run, trial: Trial | None = None) -> None:
        self.run = run
        self.trial = read_trial(run.path) if trial is None else trial
        self.steps: list[StepRecord] = list(run.steps)
        self.case = Case()
        for network in run.networks:
            self.case.network(network)
        for part in run.parts:
            self.case.part(part)
        for info in run.tensors.values():
            self.case.tensor(info)
        for step in self.steps:
            self.case.add(step)

    def events(self, kind: str) -> Iterator[tuple[int, Event]]:
        """(step, event) of a kind."""
        for step in self.steps:
            for event in step.events:
                if event.kind == kind:
                    yield step.step, event

    def seen(self, *kinds: str, phase: str = "forward") -> Iterator[tuple[int, Observation, TensorInfo]]:
        """(step, observation, tensor) of kinds in a phase."""
        tensors = self.run.tensors
        for step in self.steps:
            for one in step.observations:
                info = tensors.get(one.tensor)
                if info is not None and info.kind in kinds and one.phase == phase and one.error is None:
                    yield step.step, one, info

    @cached_property
    def updated(self) -> int:
        """How many steps an optimizer has made."""
        return sum(
            any(e.kind == "optimizer_step" and not e.values.get("skipped") for e in s.events) for s in self.steps
        )

    @cached_property
    def trained(self) -> list[Entry]:
        """Trainable parameters of the networks that an optimizer holds something of, tied ones counted once."""
        names = set(self.case.trained())
        return [
            entry
            for entry in self.case.ledger
            if entry.network in names and entry.parameter.trainable and not entry.parameter.tied_to
        ]

    def ran(self, entry: Entry) -> bool:
        """Whether the parameter's module, or one around it, has returned something in a watched step."""
        module = entry.parameter.module
        return any(info.network == entry.network and info.node == module for info in self._returned)

    @cached_property
    def _returned(self) -> list[TensorInfo]:
        found = {one.tensor: info for _, one, info in self.seen("output", "activation")}
        return list(found.values())
