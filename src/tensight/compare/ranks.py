"""Runs of several ranks against each other: rank by rank, or all of one side put together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from tensight.compare.alignment import align
from tensight.compare.moments import STAGES
from tensight.compare.recordings import NOTHING_RECORDED, compare_runs
from tensight.compare.result import Comparison, Divergence
from tensight.compare.resuming import restored
from tensight.compare.sides import Side
from tensight.errors import UsageError
from tensight.runs import Run
from tensight.store import Reader
from tensight.workers import Here, Workers

_WORST = ("different", "not_comparable", "rounding", "identical")  # a difference that was found is one


def compare_ranks(
    a: Run,
    b: Run,
    mapping: Mapping[str, str] | None = None,
    resumed_at: int | None = None,
    workers: Workers | None = None,
) -> Comparison:
    """Compare two runs with all their ranks.

    As many ranks on both sides are compared one by one. Otherwise the ranks of each side are put together: what they
    saw in pieces (of a batch, or of a sharded tensor) becomes one, and replicas stand for each other.
    """
    if resumed_at is not None and resumed_at < 1:
        raise UsageError(f"resumed_at is {resumed_at}: give the number of steps before the checkpoint, 1 or more")
    shift = resumed_at or 0
    if len(a.readers) != len(b.readers):
        left, right = Side(list(a.readers.values())), Side(list(b.readers.values()), shift)
        found = _compared(left, right, mapping, resumed_at, workers)
        note = f"A has {_ranks(a)} and B {_ranks(b)}: what they saw in pieces was put together"
        return msgspec.structs.replace(found, reason=f"{found.reason}; {note}" if found.reason else note)
    if len(a.readers) == 1:
        (reader_a,), (reader_b,) = a.readers.values(), b.readers.values()
        return _compared(Side([reader_a]), Side([reader_b], shift), mapping, resumed_at, workers)
    where = os.path.abspath(a.path), os.path.abspath(b.path)
    tasks = [_Pair(*where, *both, mapping, resumed_at) for both in zip(a.readers, b.readers)]
    found_all = (workers or Here()).map(_rank, tasks, paths=where)
    return _together(dict(zip(a.readers, found_all)))


class _Pair(NamedTuple):
    """One rank of each side, as a task."""

    a: str
    b: str
    rank_a: int
    rank_b: int
    mapping: Mapping[str, str] | None
    resumed_at: int | None


def _rank(task: _Pair) -> Comparison:
    a, b, rank_a, rank_b, mapping, resumed_at = task
    return _compared(Side([Reader(a, rank_a)]), Side([Reader(b, rank_b)], resumed_at or 0), mapping, resumed_at)


def _compared(
    a: Side, b: Side, mapping: Mapping[str, str] | None, resumed_at: int | None, workers: Workers | None = None
) -> Comparison:
    if resumed_at is not None and resumed_at not in a.numbers:
        raise UsageError(f"A has no step {resumed_at}, at which B was resumed: its last is {(a.numbers or [-1])[-1]}")
    found = compare_runs(a, b, mapping, workers)
    if resumed_at is None or resumed_at not in b.numbers:
        return found
    back = restored(a, b, resumed_at, align(a, b, mapping))
    lost = "; ".join(f"{one.what}: {one.why}" for one in back if one.restored is False)
    if not lost or not found.faults or found.faults[0].step != resumed_at:
        return msgspec.structs.replace(found, resumed=back)
    first = msgspec.structs.replace(found.faults[0], likely_cause=f"not restored from the checkpoint: {lost}")
    return msgspec.structs.replace(found, resumed=back, first_divergence=first, faults=[first, *found.faults[1:]])


def _ranks(run: Run) -> str:
    return "1 rank" if len(run.readers) == 1 else f"{len(run.readers)} ranks"


def _together(found: Mapping[int, Comparison]) -> Comparison:
    """The comparisons of all ranks as one: the earliest divergence first.

    A rank of which neither run has anything, such as one that was killed at its start, does not count.
    """
    empty = [rank for rank, one in found.items() if one.reason == NOTHING_RECORDED]
    left_out = ""
    if 0 < len(empty) < len(found):
        were = "rank {} was" if len(empty) == 1 else "ranks {} were"
        left_out = f"{were.format(', '.join(map(str, empty)))} left out: {NOTHING_RECORDED}"
        found = {rank: one for rank, one in found.items() if rank not in empty}
    faults = [msgspec.structs.replace(fault, rank=rank) for rank, one in found.items() for fault in one.faults]
    faults.sort(key=_when)
    verdict = min((one.verdict for one in found.values()), key=_WORST.index)
    first = next(iter(found.values()))
    losses = next((one.loss for one in found.values() if one.loss.verdict != "none"), first.loss)
    rows = [{**row, "rank": rank} for rank, one in found.items() for row in one.rows]
    return Comparison(
        verdict,
        first.preflight,
        losses,
        faults[0] if faults else None,
        faults,
        rows,
        "; ".join(dict.fromkeys(reason for reason in (*(one.reason for one in found.values()), left_out) if reason)),
        first.steps,
        losses=first.losses,
        resumed=first.resumed,
        aligned=first.aligned,
    )


def _when(fault: Divergence) -> tuple[int, int]:
    return fault.step, STAGES.index(fault.phase)
