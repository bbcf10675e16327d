"""A step: what happened in it and what was seen."""

from __future__ import annotations

import enum

import msgspec

from tensight.records.event import Event
from tensight.records.hit import Hit
from tensight.records.observation import Observation


class Depth(enum.IntEnum):
    """How much of a step is watched; the budget chooses it at the step's start."""

    ASLEEP = -1  # whether the loss is finite; such steps are counted and not recorded
    LIGHT = 0  # the loss as a number and the events
    GRADIENTS = 1  # and gradients and weights at the step's end
    ALL = 2  # and module outputs and their gradients


class StepRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finished step of one rank."""

    step: int
    time: float  # seconds since the epoch, at its end
    seconds: float  # of the whole step
    watching: float = 0.0  # of which Tensight's own
    loss: float | None = None
    losses: tuple[float, ...] = ()  # one per backward, in order
    micro: int = 1
    depth: int = 2
    training: bool = True
    scalars: dict[str, float] = {}  # 'lr', 'lr/Adam/1', 'scale', 'gradient_norm', …
    events: tuple[Event, ...] = ()
    observations: tuple[Observation, ...] = ()
    hits: tuple[Hit, ...] = ()
