"""The first step that went wrong: where a value stopped being finite and reached loss, gradients or weights.

A NaN that never gets there (a masked target, a −inf in an attention mask, an output that is thrown away) is no
trouble, and neither is an overflow that a gradient scaler answered by leaving the update out: unless it leaves out one
after the other until its scale multiplies by next to nothing. Then the scale is not what makes gradients overflow.
A program that only infers has none of these: there a NaN in what a network with weights answers counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tensight.diagnosis.kept import Kept
from tensight.records import Observation, StepRecord, TensorInfo

IGNORED = frozenset({"buffer"})
_RETURNED = ("output", "activation", "prediction")
LEFT_OUT = 12  # updates in a row; a scale that starts at 65536 is then at 16
SMALL_SCALE = 16.0


@dataclass(frozen=True, slots=True)
class BadStep:
    """The first step that went wrong. `bad` lists what was not finite, in order of execution."""

    step: int
    kept: Kept
    bad: tuple[tuple[Observation, TensorInfo], ...]
    loss: bool
    gradient: bool
    weight: bool
    answer: bool = False  # what a network answers, in a program that only infers
    since: int = -1  # the first of the steps in a row that went wrong in the same way, where it is an earlier one

    @property
    def began(self) -> int:
        return self.step if self.since < 0 else self.since

    def of_kind(self, *kinds: str) -> list[tuple[Observation, TensorInfo]]:
        return [pair for pair in self.bad if pair[1].kind in kinds]


class Trouble:
    """Finds the first bad step. One pass over a step's observations, two comparisons each."""

    def __init__(self, tensors: dict[int, TensorInfo]) -> None:
        self._tensors = tensors
        self.first: BadStep | None = None
        self.left_out: BadStep | None = None  # a scaler leaves out all updates, and its scale is not the reason
        self._left_out_in_a_row = 0
        self._left_out_since = -1
        self.before: Kept | None = None  # the last observed step before it
        self.good = -1  # the last step before it whose loss, or without one whose answer, was seen and finite
        self.usual: set[int] = set()  # tensors that are not finite in good steps
        self._trains = False  # a loss or a gradient was seen: what is computed beside a training is its own affair

    def follow(self, record: StepRecord) -> bool:
        """Answers whether this step is the first that went wrong."""
        if self.first is not None:
            return False
        self._count_left_out(record)
        loss = record.loss is not None and not math.isfinite(record.loss)
        self._trains = self._trains or record.loss is not None
        found: list[Observation] | None = None
        for one in record.observations:
            stats = one.stats
            if stats.nan or stats.pos_inf or stats.neg_inf:
                if found is None:
                    found = []
                found.append(one)
        if not loss and record.loss is not None:
            self.good = record.step
        if found is None and not loss:
            if record.observations and record.depth:
                self.before = Kept(record, self._tensors)
                if record.loss is None and not self._trains and self._answered(record):
                    self.good = record.step
            return False
        return self._judge(record, loss, found or [])

    def _judge(self, record: StepRecord, loss: bool, found: list[Observation]) -> bool:
        pairs = [(one, self._tensors[one.tensor]) for one in found if one.tensor in self._tensors]
        pairs = [pair for pair in pairs if pair[1].kind not in IGNORED]
        answer = not self._trains and any(self._is_answer(*pair) for pair in pairs)
        if not answer:
            pairs = [pair for pair in pairs if pair[0].phase != "evaluation"]
        weight = any(info.kind in ("weight", "frozen") for _, info in pairs)
        gradient = any(info.kind == "gradient" for _, info in pairs)
        kept = Kept(record, self._tensors)
        if gradient and not loss and not weight and self._skipped(record):
            self.before = kept
            return self._whatever_the_scale(record, kept, pairs)
        self._trains = self._trains or gradient
        if not (loss or gradient or weight or answer):
            self.usual.update(one.tensor for one in found)
            self.before = kept
            return False
        fresh = [pair for pair in pairs if pair[0].tensor not in self.usual]
        fresh.sort(key=lambda pair: pair[0].order)
        self.first = BadStep(record.step, kept, tuple(fresh), loss, gradient, weight, answer)
        return True

    def _answered(self, record: StepRecord) -> bool:
        """Whether what a network returned was looked at."""
        infos = (self._tensors.get(one.tensor) for one in record.observations)
        return any(info is not None and not info.node and info.kind in _RETURNED for info in infos)

    def _is_answer(self, one: Observation, info: TensorInfo) -> bool:
        """Whether this is a NaN in what a network returns; -inf is what scores that are ruled out are set to."""
        if not one.stats.nan or info.node or info.kind not in _RETURNED:
            return False
        return any(
            other.network == info.network and other.kind in ("weight", "frozen") for other in self._tensors.values()
        )

    def _count_left_out(self, record: StepRecord) -> None:
        if self._skipped(record):
            self._left_out_in_a_row += 1
            self._left_out_since = record.step if self._left_out_since < 0 else self._left_out_since
        elif any(event.kind in ("optimizer_step", "scale") for event in record.events):
            self._left_out_in_a_row, self._left_out_since = 0, -1

    def _whatever_the_scale(self, record: StepRecord, kept: Kept, pairs: list[tuple[Observation, TensorInfo]]) -> bool:
        """Whether this is the step by which it is clear that no scale would do."""
        scales = [event.values.get("scale") for event in record.events if event.kind == "scale"]
        small = any(isinstance(scale, (int, float)) and scale <= SMALL_SCALE for scale in scales)
        if self.left_out is not None or self._left_out_in_a_row < LEFT_OUT or not small:
            return False
        bad = tuple(sorted(pairs, key=lambda pair: pair[0].order))
        self.left_out = BadStep(
            record.step, kept, bad, loss=False, gradient=True, weight=False, since=self._left_out_since
        )
        return True

    @staticmethod
    def _skipped(record: StepRecord) -> bool:
        return any(
            (event.kind == "optimizer_step" and event.values.get("skipped"))
            or (event.kind == "scale" and event.values.get("overflow"))
            for event in record.events
        )
