"""Follows one rank's part of a run directory."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tensight.errors import DamagedError, FormatError
from tensight.records import (
    Coverage,
    Finding,
    Graph,
    GraphInfo,
    Network,
    Part,
    Replay,
    RunEnd,
    RunInfo,
    TensorInfo,
    Watchpoint,
)
from tensight.store import graphs, layout, process
from tensight.store.codec import decode
from tensight.store.frame import Frame, FrameKind
from tensight.store.kept import KeptTensor
from tensight.store.kept import read as read_kept
from tensight.store.segment import IndexEntry, Segment, identity
from tensight.store.state import State
from tensight.store.steps import Steps


class News(msgspec.Struct, frozen=True):
    """What came after a sequence number: numbers of new steps, and the nouns ('findings', …) that changed."""

    sequence: int
    steps: tuple[int, ...]
    changed: tuple[str, ...]


class Reader:
    """One rank of a run, while it is written or after.

    Making a reader raises FormatError when there is no run or one of a newer format. Damage in the middle does not
    prevent reading: what passes its check is there, `damage` lists the rest, and `verify` raises it.
    """

    def __init__(self, folder: str | Path, rank: int = 0) -> None:
        self.folder = Path(folder)
        self.rank = rank
        self.part = layout.part(self.folder, rank)
        self.steps = Steps(self)
        self.sequence = 0
        self._segments: dict[int, Segment] = {}
        self._state: State | None = None
        self._state_segment = -1
        self._lock = threading.RLock()
        if not layout.segments(self.part):
            raise FormatError(f"{self.folder} holds no recording of rank {rank}: give the folder of a run")
        self.refresh()
        if self._state is None:
            raise next(iter(self.damage), None) or FormatError(f"{self.part} holds no readable beginning of a run")

    def refresh(self) -> bool:
        """Take in what was written since; True when there was something new."""
        with self._lock:
            before = self.sequence
            numbers = layout.segments(self.part)
            stale = [n for n, segment in self._segments.items() if n not in numbers or segment.rewritten()]
            for number in stale:
                del self._segments[number]
            if self._state is None:
                self._find_state(numbers)
            for number in numbers:
                self._follow(number, last=number == numbers[-1])
            if stale:
                self.steps._clear()
                for number in sorted(self._segments):
                    self.steps._add(self._segments[number], self._segments[number].entries)
            return bool(stale) or self.sequence != before

    def since(self, sequence: int) -> News:
        """What is new since a sequence number; 0 asks for everything."""
        with self._lock:
            changed = tuple(sorted(noun for noun, at in self._known.changed.items() if at > sequence))
            return News(self.sequence, tuple(self.steps.since(sequence)), changed)

    @property
    def info(self) -> RunInfo:
        return self._known.info

    @property
    def networks(self) -> Mapping[str, Network]:
        return self._known.networks

    @property
    def parts(self) -> Sequence[Part]:
        return list(self._known.parts.values())

    @property
    def tensors(self) -> Mapping[int, TensorInfo]:
        return self._known.tensors

    @property
    def watchpoints(self) -> Mapping[int, Watchpoint]:
        return self._known.watchpoints

    @property
    def findings(self) -> Sequence[Finding]:
        return self._known.findings

    @property
    def replays(self) -> Sequence[Replay]:
        return self._known.replays

    @property
    def coverage(self) -> Coverage | None:
        return self._known.coverage

    @property
    def crash(self) -> Mapping[str, Any] | None:
        return self._known.crash

    @property
    def end(self) -> RunEnd | None:
        return self._known.end

    @property
    def lost(self) -> Sequence[str]:
        """What the writer could not record, and what is damaged."""
        said = self._known.end.lost if self._known.end else self._known.lost
        return [*said, *(str(error) for error in self.damage)]

    @property
    def kept(self) -> Mapping[int, tuple[int, ...]]:
        """For each step with kept tensors, their ids."""
        return {step: found.tensors for step, found in self._known.kept.items()}

    @property
    def graphs(self) -> Mapping[str, GraphInfo]:
        """The graphs there are, by name."""
        return self._known.graphs

    def graph(self, name: str) -> Graph | None:
        """The structure of a step; None when it was not recorded or its file is gone."""
        info = self._known.graphs.get(name)
        return None if info is None else graphs.read(self.part, info)

    @property
    def alive(self) -> bool:
        """Whether the process that writes this part still runs, as far as can be known from here."""
        newest = self._segments[max(self._segments)].path
        last_write = identity(newest)[1] / 1e9
        return process.alive(self.info.pid, self._known.host, self._known.process_started, last_write)

    @property
    def damage(self) -> Sequence[DamagedError]:
        return [error for number in sorted(self._segments) for error in self._segments[number].damage]

    def tensor(self, step: int, tensor: int) -> KeptTensor | None:
        """A kept tensor, or None when it was not kept."""
        if tensor not in self.kept.get(step, ()):
            return None
        return read_kept(layout.tensor_file(self.part, step), tensor)

    def verify(self) -> None:
        """Check every byte; raises the first DamagedError."""
        for number in layout.segments(self.part):
            segment = Segment(layout.segment(self.part, number), number)
            segment.walk(lambda frame: None)
            for error in segment.damage:
                raise error

    @property
    def _known(self) -> State:
        assert self._state is not None  # a reader without a state was never made
        return self._state

    def _find_state(self, numbers: Sequence[int]) -> None:
        """Begin with the last segment that has a good header: it repeats all that the earlier ones said."""
        for number in reversed(numbers):
            segment = Segment(layout.segment(self.part, number), number)
            self._walk(segment)
            self._segments[number] = segment
            if self._state is not None:
                break
        self.steps._clear()
        for number in sorted(self._segments):
            self.steps._add(self._segments[number], self._segments[number].entries)

    def _follow(self, number: int, *, last: bool) -> None:
        segment = self._segments.get(number)
        if segment is None:
            segment = Segment(layout.segment(self.part, number), number)
            self._segments[number] = segment
            if last or not segment.load_index():
                self._walk(segment)
            else:
                self._note(segment)
            self.steps._add(segment, segment.entries)
        elif not segment.closed:
            self.steps._add(segment, self._walk(segment))

    def _note(self, segment: Segment) -> None:
        for entry in segment.entries:
            self.sequence = max(self.sequence, entry.sequence)

    def _walk(self, segment: Segment) -> list[IndexEntry]:
        new = segment.walk(lambda frame: self._apply(segment, frame))
        for entry in new:
            self.sequence = max(self.sequence, entry.sequence)
        if segment.closed:
            segment.settle()
        return new

    def _apply(self, segment: Segment, frame: Frame) -> None:
        if segment.number < self._state_segment:
            return  # an old segment, read again after it was thinned: later ones know better
        if frame.kind == FrameKind.HEADER:
            self._state = decode(frame.payload, State)
            self._state_segment = segment.number
        elif self._state is not None:
            self._state.apply(frame.kind, frame.payload, frame.sequence)
        self.sequence = max(self.sequence, frame.sequence)
