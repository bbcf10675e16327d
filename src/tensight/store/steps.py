"""The steps of a part, decoded when they are asked for."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar, overload

from tensight.errors import UNDECODABLE, NameNotFound
from tensight.records import StepRecord
from tensight.store import codec
from tensight.store.segment import IndexEntry, Segment

if TYPE_CHECKING:
    from tensight.store.reader import Reader

T = TypeVar("T")


class Steps(Sequence[StepRecord]):
    """The steps of one rank in order: `steps[-1]` is by place, `steps.at(153)` by number.

    Only an index is held; a step is read and decoded each time it is asked for.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._where: dict[int, tuple[Segment, IndexEntry]] = {}
        self._numbers: list[int] = []
        self._sorted = True

    def _add(self, segment: Segment, entries: Iterable[IndexEntry]) -> None:
        for entry in entries:
            if entry.step not in self._where:
                if self._numbers and entry.step < self._numbers[-1]:
                    self._sorted = False
                self._numbers.append(entry.step)
            self._where[entry.step] = (segment, entry)

    def _clear(self) -> None:
        self._where = {}
        self._numbers = []
        self._sorted = True

    @property
    def numbers(self) -> Sequence[int]:
        """Numbers of the steps that are kept, ascending. They have gaps where retention dropped steps."""
        if not self._sorted:
            self._numbers = sorted(self._numbers)
            self._sorted = True
        return self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> StepRecord: ...
    @overload
    def __getitem__(self, place: slice) -> list[StepRecord]: ...
    def __getitem__(self, place: int | slice) -> StepRecord | list[StepRecord]:
        if isinstance(place, slice):
            return [self.at(step) for step in self.numbers[place]]
        return self.at(self.numbers[place])

    def __iter__(self) -> Iterator[StepRecord]:
        for step in list(self.numbers):
            yield self.at(step)

    def has(self, step: int) -> bool:
        """Whether a step is kept."""
        return step in self._where

    def __repr__(self) -> str:
        return f"<Steps: {len(self)}, the last is {self.numbers[-1]}>" if self._numbers else "<Steps: none yet>"

    def at(self, step: int) -> StepRecord:
        """A step by its number, with its observations. A NameNotFound says which steps there are."""
        return self._read(step, codec.decode_step)

    def head(self, step: int) -> StepRecord:
        """A step without its observations: loss, scalars, events, hits."""
        return self._read(step, codec.decode_head)[0]

    def some(self, step: int, tensors: frozenset[int]) -> StepRecord:
        """A step with the observations of some tensors only."""
        return self._read(step, lambda payload: codec.decode_some(payload, tensors))

    def heads(self, steps: range | None = None) -> Iterator[StepRecord]:
        """Steps without their observations, e.g. for curves."""
        for number in self.within(steps):
            yield self.head(number)

    def within(self, steps: range | None = None) -> list[int]:
        """Numbers of the kept steps inside a range.

        A range with a step of its own is taken at its word: range(0, 100, 10) gives every tenth.
        """
        numbers = self.numbers
        if steps is None:
            return list(numbers)
        low = bisect.bisect_left(numbers, min(steps, default=0))
        high = bisect.bisect_right(numbers, max(steps, default=-1))
        return [number for number in numbers[low:high] if number in steps]

    def with_hits(self) -> list[int]:
        """Numbers of the steps that have hits or error entries, without decoding any."""
        return [step for step in self.numbers if self._where[step][1].hits]

    def thinned(self, step: int) -> bool:
        """Whether only extremes are left of a step's observations."""
        return self._entry(step)[1].thinned

    def since(self, sequence: int) -> list[int]:
        """Numbers of the steps that were written after a sequence number."""
        found = []
        for step in reversed(self.numbers):  # sequence numbers grow with the steps
            if self._where[step][1].sequence <= sequence:
                break
            found.append(step)
        return found[::-1]

    def _entry(self, step: int) -> tuple[Segment, IndexEntry]:
        try:
            return self._where[step]
        except KeyError:
            numbers = self.numbers
            there = f"steps from {numbers[0]} to {numbers[-1]} are kept" if numbers else "no step was recorded yet"
            raise NameNotFound(f"there is no step {step} in {self._reader.folder}: {there}") from None

    def _read(self, step: int, decode: Callable[[memoryview], T]) -> T:
        segment, entry = self._entry(step)
        payload = segment.payload(entry)
        if payload is None:  # thinned or dropped by the writer since the last refresh
            self._reader.refresh()
            segment, entry = self._entry(step)
            payload = segment.payload(entry)
            if payload is None:
                raise NameNotFound(f"step {step} of {self._reader.folder} was dropped while it was read")
        try:
            return decode(payload)
        except (*UNDECODABLE, TypeError, ValueError, IndexError) as error:
            raise segment.damaged_at(entry.offset, f"step {step} cannot be understood, {error}") from error
