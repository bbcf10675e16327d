"""Compares what ranks should hold alike while they train: each leaves its checksums in the run's folder.

No rank waits for another, and nothing is sent through the training's own group. The first rank reads what the others
have left, at the end of a step, until a check is complete.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tensight.capture.companion import Companion
from tensight.errors import UNDECODABLE
from tensight.records import Finding, StepRecord
from tensight.runs.agreement import KIND, Check, Told, differences, of_events
from tensight.store import layout

if TYPE_CHECKING:
    from tensight.capture.recorder import Recorder

FILE = "agreement.msgpack"
FEWEST_KEPT = 32  # checks, of all groups together
KEPT = 192  # of small networks, which are checked often at first
MOST_BYTES = 1 << 18
MOST_RANKS = 128  # more are compared when the run is read, not by a training that waits for it
SHARE = 0.005  # of the time that comparing may take; what is left out is compared with the next check
PATIENCE = 32  # steps that the first rank looks for a check of the others


class Agreeing(Companion):
    """Leaves this rank's checksums for the others; on rank 0 compares them."""

    def __init__(self, recorder: Recorder, folder: Path) -> None:
        self._recorder = recorder
        self._folder = folder
        self._checks: deque[Check] = deque(maxlen=KEPT)
        self._until = -1
        self._next = 0.0  # when to compare again at the earliest
        self._told: set[tuple[str, str]] = set()

    def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
        if any(event.kind == KIND for event in record.events):
            events = ((record.step, event) for event in record.events)
            told = of_events(self._recorder.rank, self._recorder.found.parts.values(), events)
            self._checks.extend(told.checks)
            size = sum(len(check.sums) for check in self._checks)
            while size > MOST_BYTES and len(self._checks) > FEWEST_KEPT:
                size -= len(self._checks.popleft().sums)
            leave(self._folder, msgspec.structs.replace(told, checks=tuple(self._checks)))
            self._until = record.step + PATIENCE
        if self._recorder.rank == 0 and record.step <= self._until and time.monotonic() >= self._next:
            self._compare()

    def _compare(self) -> None:
        began = time.monotonic()
        told = read(self._folder)
        if len(told) > MOST_RANKS:
            self._next = math.inf
            return
        if self._is_complete(told):
            self._until = -1
        for one in differences(told):
            if one.kind == "single":
                continue  # they may yet put together what they have learnt: judged when the run is over
            if (one.kind, one.network) not in self._told:
                self._told.add((one.kind, one.network))
                event = one.event()
                self._recorder.event(event.kind, event.part, event.values, event.source)
        now = time.monotonic()
        self._next = now + (now - began) / SHARE

    def _is_complete(self, told: Iterable[Told]) -> bool:
        last = self._checks[-1].update if self._checks else -1
        count = 0
        for one in told:
            count += 1
            if not any(check.update >= last for check in one.checks):
                return False
        return count > 1


def leave(folder: Path, told: Told) -> None:
    """Leave what this rank has told for the others."""
    layout.leave(folder, told.rank, FILE, msgspec.msgpack.encode(told))


def read(folder: Path) -> list[Told]:
    """What the ranks have left."""
    found: list[Told] = []
    for path in folder.glob(f"rank-*/{FILE}"):
        with contextlib.suppress(OSError, *UNDECODABLE):
            found.append(msgspec.msgpack.decode(path.read_bytes(), type=Told))
    return sorted(found, key=lambda one: one.rank)
