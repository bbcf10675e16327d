"""A step that is kept whole, with the questions rules ask of it. Answers are computed when first asked for."""

from __future__ import annotations

import math
from functools import cached_property

from tensight.diagnosis.ledger import Entry, Ledger
from tensight.records import Observation, Stats, StepRecord, TensorInfo

Pair = tuple[Observation, TensorInfo]


class Kept:
    """One observed step."""

    def __init__(self, record: StepRecord, tensors: dict[int, TensorInfo]) -> None:
        self.record = record
        self.step = record.step
        self._tensors = tensors
        self._ratios: list[tuple[Entry, float]] | None = None

    @cached_property
    def _by_tensor(self) -> dict[int, list[Observation]]:
        index: dict[int, list[Observation]] = {}
        for one in self.record.observations:
            if one.error is None:
                index.setdefault(one.tensor, []).append(one)
        return index

    def all(self, tensor: int) -> list[Observation]:
        return self._by_tensor.get(tensor, [])

    def last(self, tensor: int) -> Stats | None:
        """The last statistics of a tensor in this step; None when it was not seen."""
        seen = self._by_tensor.get(tensor)
        return seen[-1].stats if seen else None

    @cached_property
    def _by_kind(self) -> dict[str, list[Pair]]:
        index: dict[str, list[Pair]] = {}
        tensors = self._tensors
        for one in self.record.observations:
            info = tensors.get(one.tensor)
            if info is not None and one.error is None:
                index.setdefault(info.kind, []).append((one, info))
        return index

    @cached_property
    def _forward(self) -> list[Pair]:
        return [pair for pair in self.returned() if pair[0].phase == "forward"]

    def returned(self) -> list[Pair]:
        """Outputs of modules and activations in the order they came."""
        return sorted(self.of_kind("output", "activation"), key=lambda pair: pair[0].order)

    def forward(self) -> list[Pair]:
        """Outputs of modules and activations in the order they came, evaluation left out."""
        return self._forward

    def of_kind(self, *kinds: str) -> list[Pair]:
        if len(kinds) == 1:
            return self._by_kind.get(kinds[0], [])
        return [pair for kind in kinds for pair in self._by_kind.get(kind, [])]

    def gradient(self, entry: Entry) -> Stats | None:
        return self.last(entry.gradient) if entry.gradient >= 0 else None

    def weight(self, entry: Entry) -> Stats | None:
        return self.last(entry.weight) if entry.weight >= 0 else None

    def weight_before(self, entry: Entry) -> Stats | None:
        """The weight as it was before this step's update, when that was looked at."""
        for one in self.all(entry.weight) if entry.weight >= 0 else []:
            if one.phase != "update" and one.stats.change is None:
                return one.stats
        return None

    def update_ratios(self, ledger: Ledger) -> list[tuple[Entry, float]]:
        """Mean size of the change over mean size of the weight, for each layer's weight."""
        if self._ratios is None:
            self._ratios = []
            for one, _ in self.of_kind("weight"):
                change = one.stats.change
                entry = ledger.weight_of(one.tensor) if change is not None else None
                if change is not None and entry is not None and entry.layer and change.before_abs_mean > 0:
                    # A weight that started at zero doubles in its first steps: compare with what is usual, too.
                    size = max(change.before_abs_mean, 0.1 / math.sqrt(max(1, entry.fan_in)))
                    self._ratios.append((entry, change.abs_mean / size))
        return self._ratios

    @cached_property
    def gradient_norm(self) -> float:
        """Of all parameters together."""
        total = 0.0
        for one, _ in self.of_kind("gradient"):
            norm = one.stats.l2 or 0.0
            total += norm * norm
        return math.sqrt(total)


def rms(stats: Stats) -> float:
    """Root mean square over the values that are not zero: sparse gradients count by what they hold."""
    used = stats.finite - stats.zero
    return (stats.l2 or 0.0) / used**0.5 if used > 0 else 0.0


def abs_max(stats: Stats) -> float:
    """The largest magnitude among finite values."""
    return max(abs(stats.min or 0.0), abs(stats.max or 0.0))
