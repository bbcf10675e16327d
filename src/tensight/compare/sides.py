"""One side of a comparison: a recorded run, or the ranks of one, its steps counted as those of the other side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from tensight.compare.values import Stored, stored
from tensight.records import Module, Network, Observation, Part, RunInfo, StepRecord, TensorInfo
from tensight.store import Reader, layout


class Side:
    """A run as a comparison sees it. `shift` is the step of the other side that is step 0 of this one."""

    def __init__(self, readers: Sequence[Reader], shift: int = 0) -> None:
        self.readers = list(readers)
        self.first = self.readers[0]
        self.shift = shift
        self._files: dict[int, dict[str, Stored]] = {}

    @property
    def info(self) -> RunInfo:
        return self.first.info

    @property
    def networks(self) -> Mapping[str, Network]:
        return self.first.networks

    @property
    def parts(self) -> Sequence[Part]:
        return self.first.parts

    @property
    def tensors(self) -> Mapping[int, TensorInfo]:
        return self.first.tensors

    @cached_property
    def modules(self) -> Mapping[str, Module]:
        """Every module by its path."""
        return {module.path: module for network in self.networks.values() for module in network.modules}

    @property
    def numbers(self) -> list[int]:
        """Steps that every rank has, as the other side counts."""
        common = set(self.first.steps.numbers)
        for reader in self.readers[1:]:
            common &= set(reader.steps.numbers)
        return [step + self.shift for step in sorted(common)]

    def head(self, step: int) -> StepRecord:
        return self.first.steps.head(step - self.shift)

    def micros(self, step: int) -> int:
        """How many backward passes a step has."""
        return self.head(step).micro

    def loss(self, step: int) -> float | None:
        """The loss of a step; the mean over ranks, each of which saw its own part of the batch."""
        losses = [reader.steps.head(step - self.shift).loss for reader in self.readers]
        known = [loss for loss in losses if loss is not None]
        return sum(known) / len(known) if known and len(known) == len(losses) else None

    def observations(self, step: int) -> Iterator[tuple[TensorInfo, Observation]]:
        """What was seen in a step, rank by rank."""
        for reader in self.readers:
            tensors = reader.tensors
            for seen in reader.steps.at(step - self.shift).observations:
                info = tensors.get(seen.tensor)
                if info is not None and seen.error is None:
                    yield info, seen

    def kept(self, step: int, tensor: int) -> Stored | None:
        """The values of a tensor of the first rank, where they were kept; read when asked for."""
        own = step - self.shift
        if tensor not in self.first.kept.get(own, ()):
            return None
        if own not in self._files:
            self._files = {own: stored(layout.tensor_file(self.first.part, own))}
        return self._files[own].get(str(tensor))
