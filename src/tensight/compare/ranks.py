"""Runs of several ranks against each other: rank by rank, or all of one side put together."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tensight.compare.alignment import align
from tensight.compare.moments import STAGES
from tensight.compare.recordings import compare_runs
from tensight.compare.result import Comparison, Divergence
from tensight.compare.resuming import restored
from tensight.compare.sides import Side
from tensight.errors import UsageError
from tensight.runs import Run

_WORST = ("not_comparable", "different", "rounding", "identical")


def compare_ranks(
    a: Run, b: Run, mapping: Mapping[str, str] | None = None, resumed_at: int | None = None
) -> Comparison:
    """Compare two runs with all their ranks.

    As many ranks on both sides are compared one by one. Otherwise the ranks of each side are put together: what they
    saw in pieces (of a batch, or of a sharded tensor) becomes one, and replicas stand for each other.
    """
    if resumed_at is not None and resumed_at < 1:
        raise UsageError(f"resumed_at is {resumed_at}: give the number of steps before the checkpoint, 1 or more")
    shift = resumed_at or 0
    if len(a.readers) != len(b.readers):
        found = _compared(Side(list(a.readers.values())), Side(list(b.readers.values()), shift), mapping, resumed_at)
        note = f"A has {_ranks(a)} and B {_ranks(b)}: what they saw in pieces was put together"
        return msgspec.structs.replace(found, reason=f"{found.reason}; {note}" if found.reason else note)
    found_all = {
        rank: _compared(Side([a.readers[rank]]), Side([reader_b], shift), mapping, resumed_at)
        for rank, reader_b in zip(a.readers, b.readers.values())
    }
    if len(found_all) == 1:
        return next(iter(found_all.values()))
    return _together(found_all)


def _compared(a: Side, b: Side, mapping: Mapping[str, str] | None, resumed_at: int | None) -> Comparison:
    if resumed_at is not None and resumed_at not in a.numbers:
        raise UsageError(f"A has no step {resumed_at}, at which B was resumed: its last is {(a.numbers or [-1])[-1]}")
    found = compare_runs(a, b, mapping)
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
    """The comparisons of all ranks as one: the earliest divergence first."""
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
        "; ".join(dict.fromkeys(one.reason for one in found.values() if one.reason)),
        first.steps,
        losses=first.losses,
        resumed=first.resumed,
        aligned=first.aligned,
    )


def _when(fault: Divergence) -> tuple[int, int]:
    return fault.step, STAGES.index(fault.phase)
