"""Judges a recorded step again, with the watchpoints of now, without running anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tensight.records import Hit, Observation, TensorInfo, Watchpoint
from tensight.watchpoints.checker import Checker, OnError


def recheck(
    watchpoints: Iterable[Watchpoint],
    step: int,
    observations: Sequence[Observation],
    tensors: Mapping[int, TensorInfo],
    *,
    rank: int = 0,
    updates: int,
    earlier: Iterable[tuple[int, Sequence[Observation]]] = (),
    on_error: OnError | None = None,
) -> list[Hit]:
    """The hits of one step. Limits are lifted: the question is what holds now, not what to be told during training.

    `earlier` are observations of steps before it, oldest first, for conditions that look at history.
    """
    lifted = [
        msgspec.structs.replace(watchpoint, after=0, every=1, at_most=0, in_a_row=1) for watchpoint in watchpoints
    ]
    checker = Checker(lifted) if on_error is None else Checker(lifted, on_error)
    for before, seen in earlier:
        # What was said of earlier steps is not asked for; they only fill the history.
        checker.check(before, seen, tensors, rank=rank, updates=max(1, updates))
    return checker.check(step, observations, tensors, rank=rank, updates=updates)
