"""The first step that went wrong: where a value stopped being finite and reached loss, gradients or weights.

A NaN that never gets there (a masked target, a −inf in an attention mask, an output that is thrown away) is no
trouble, and neither is an overflow that a gradient scaler answered by leaving the update out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tensight.diagnosis.kept import Kept
from tensight.records import Observation, StepRecord, TensorInfo

IGNORED = frozenset({"buffer"})


@dataclass(frozen=True, slots=True)
class BadStep:
    """The first step that went wrong. `bad` lists what was not finite, in order of execution."""

    step: int
    kept: Kept
    bad: tuple[tuple[Observation, TensorInfo], ...]
    loss: bool
    gradient: bool
    weight: bool

    def of_kind(self, *kinds: str) -> list[tuple[Observation, TensorInfo]]:
        return [pair for pair in self.bad if pair[1].kind in kinds]


class Trouble:
    """Finds the first bad step. One pass over a step's observations, two comparisons each."""

    def __init__(self, tensors: dict[int, TensorInfo]) -> None:
        self._tensors = tensors
        self.first: BadStep | None = None
        self.before: Kept | None = None  # the last observed step before it
        self.usual: set[int] = set()  # tensors that are not finite in good steps

    def follow(self, record: StepRecord) -> bool:
        """Answers whether this step is the first that went wrong."""
        if self.first is not None:
            return False
        loss = record.loss is not None and not math.isfinite(record.loss)
        found: list[Observation] | None = None
        for one in record.observations:
            stats = one.stats
            if stats.nan or stats.pos_inf or stats.neg_inf:
                if found is None:
                    found = []
                found.append(one)
        if found is None and not loss:
            if record.observations and record.depth:
                self.before = Kept(record, self._tensors)
            return False
        return self._judge(record, loss, found or [])

    def _judge(self, record: StepRecord, loss: bool, found: list[Observation]) -> bool:
        pairs = [(one, self._tensors[one.tensor]) for one in found if one.tensor in self._tensors]
        pairs = [pair for pair in pairs if pair[1].kind not in IGNORED and pair[0].phase != "evaluation"]
        weight = any(info.kind in ("weight", "frozen") for _, info in pairs)
        gradient = any(info.kind == "gradient" for _, info in pairs)
        kept = Kept(record, self._tensors)
        if gradient and not loss and not weight and self._skipped(record):
            self.before = kept
            return False
        if not (loss or gradient or weight):
            self.usual.update(one.tensor for one in found)
            self.before = kept
            return False
        fresh = [pair for pair in pairs if pair[0].tensor not in self.usual]
        fresh.sort(key=lambda pair: pair[0].order)
        self.first = BadStep(record.step, kept, tuple(fresh), loss, gradient, weight)
        return True

    @staticmethod
    def _skipped(record: StepRecord) -> bool:
        return any(
            (event.kind == "optimizer_step" and event.values.get("skipped"))
            or (event.kind == "scale" and event.values.get("overflow"))
            for event in record.events
        )
