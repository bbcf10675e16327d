"""Conditions judged again on what was recorded, without running the training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tensight.errors import TensightError
from tensight.records import Hit, Needs, Observation, Watchpoint, Within
from tensight.runs.words import within
from tensight.stats import statistics
from tensight.store import Reader

if TYPE_CHECKING:
    from tensight.watchpoints.checker import Checker
    from tensight.watchpoints.condition import Condition


# counts in ranges by step, tensor and number of values; None where the values could not be had
Counted = dict[tuple[int, int, int], tuple[Within, ...] | None]


def watchpoints_of(conditions: Condition | Watchpoint | str | Iterable[Any], nodes: str | None) -> list[Watchpoint]:
    """Watchpoints out of conditions, watchpoints or their text; `nodes` is the selector they are set on."""
    from tensight.watchpoints import spec
    from tensight.watchpoints.expression import Expression

    given: list[Any] = [conditions] if _single(conditions) else list(conditions)  # type: ignore[arg-type]
    made = []
    for id, wanted in enumerate(given, start=1):
        if isinstance(wanted, str):
            watchpoint = spec.parse(wanted, id)
        elif isinstance(wanted, Watchpoint):
            watchpoint = msgspec.structs.replace(wanted, id=id)
        else:
            text = wanted.expression if isinstance(wanted, Expression) else ""
            watchpoint = Watchpoint(id, wanted.code, dict(wanted.given), name=wanted.name, expression=text)
        made.append(watchpoint if nodes is None else msgspec.structs.replace(watchpoint, on=nodes))
    return made


def recheck(
    readers: Sequence[Reader],
    watchpoints: Sequence[Watchpoint],
    step: int | range | None,
    on_error: Callable[..., None],
) -> list[Hit]:
    """Every hit of the watchpoints on the recorded statistics, in order of step, rank and execution."""
    return in_order(hit for reader in readers for hit in recheck_rank(reader, watchpoints, step, on_error))


def in_order(hits: Iterable[Hit]) -> list[Hit]:
    """Hits in order of step, rank and execution."""
    return sorted(hits, key=lambda hit: (hit.step, hit.rank, hit.order))


def recheck_rank(
    reader: Reader,
    watchpoints: Sequence[Watchpoint],
    step: int | range | None,
    on_error: Callable[..., None],
    counted: Counted | None = None,
) -> list[Hit]:
    """The hits of one rank. `counted` holds what `count_kept` found before; without it kept values are read here."""
    from tensight.watchpoints.checker import Checker

    hits: list[Hit] = []
    checker = Checker(watchpoints, on_error=on_error)
    for number in reader.steps.numbers:
        # steps that are not asked for are judged too: conditions with a history need what came before
        record = reader.steps.at(number)
        kept = frozenset(reader.kept.get(number, ()))
        seen = [
            _complete(reader, checker, number, one, counted) if one.tensor in kept else one
            for one in record.observations
        ]
        found = checker.check(number, seen, reader.tensors, rank=reader.rank, updates=number)
        if within(number, step):
            hits.extend(found)
    return hits


def count_kept(reader: Reader, watchpoints: Sequence[Watchpoint], steps: Iterable[int]) -> Counted:
    """What the watchpoints ask of kept values beyond the recorded statistics, for some steps."""
    from tensight.watchpoints.checker import Checker

    checker = Checker(watchpoints)
    found: Counted = {}
    for number in steps:
        wanted = frozenset(reader.kept.get(number, ()))
        for one in reader.steps.some(number, wanted).observations:
            if _asks(checker, reader, one) and (number, one.tensor, one.stats.count) not in found:
                found[number, one.tensor, one.stats.count] = _counted(reader, checker, number, one)
    return found


def asks_for_values(reader: Reader, watchpoints: Sequence[Watchpoint]) -> bool:
    """Whether a watchpoint asks for more than the usual statistics of a tensor that was kept."""
    from tensight.watchpoints.checker import Checker

    checker = Checker(watchpoints)
    kept = {tensor for tensors in reader.kept.values() for tensor in tensors}
    return any(checker.needs(reader.tensors[tensor]).ranges for tensor in kept if tensor in reader.tensors)


def _asks(checker: Checker, reader: Reader, seen: Observation) -> bool:
    needs = checker.needs(reader.tensors[seen.tensor])
    return not {(one.start, one.end) for one in seen.stats.within} >= set(needs.ranges)


def _complete(reader: Reader, checker: Checker, step: int, seen: Observation, counted: Counted | None) -> Observation:
    """An observation of a kept tensor with the counts that watchpoints of now ask for, taken from its values."""
    if not _asks(checker, reader, seen):
        return seen
    if counted is None:
        within = _counted(reader, checker, step, seen)
    else:
        within = counted.get((step, seen.tensor, seen.stats.count))
    if within is None:
        return seen  # it is judged by what was recorded
    return msgspec.structs.replace(seen, stats=msgspec.structs.replace(seen.stats, within=within))


def _counted(reader: Reader, checker: Checker, step: int, seen: Observation) -> tuple[Within, ...] | None:
    try:
        kept = reader.tensor(step, seen.tensor)
    except TensightError:
        return None
    if kept is None:
        return None
    parts = 2 if kept.array.dtype.kind == "c" else 1  # real and imaginary parts are counted apart
    if kept.array.size * parts != seen.stats.count:
        return None
    needs = checker.needs(reader.tensors[seen.tensor])
    return statistics(kept.array, Needs(ranges=needs.ranges)).within


def _single(conditions: Any) -> bool:
    return isinstance(conditions, (str, Watchpoint)) or hasattr(conditions, "judge")
