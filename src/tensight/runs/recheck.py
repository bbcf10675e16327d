"""Conditions judged again on what was recorded, without running the training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tensight.errors import TensightError
from tensight.records import Hit, Needs, Observation, Watchpoint
from tensight.runs.words import within
from tensight.stats import statistics
from tensight.store import Reader

if TYPE_CHECKING:
    from tensight.watchpoints.checker import Checker
    from tensight.watchpoints.condition import Condition


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
    from tensight.watchpoints.checker import Checker

    hits: list[Hit] = []
    for reader in readers:
        checker = Checker(watchpoints, on_error=on_error)
        for number in reader.steps.numbers:
            # steps that are not asked for are judged too: conditions with a history need what came before
            record = reader.steps.at(number)
            kept = frozenset(reader.kept.get(number, ()))
            seen = [
                _complete(reader, checker, number, one) if one.tensor in kept else one for one in record.observations
            ]
            found = checker.check(number, seen, reader.tensors, rank=reader.rank, updates=number)
            if within(number, step):
                hits.extend(found)
    return sorted(hits, key=lambda hit: (hit.step, hit.rank, hit.order))


def _complete(reader: Reader, checker: Checker, step: int, seen: Observation) -> Observation:
    """An observation of a kept tensor with the counts that watchpoints of now ask for, taken from its values."""
    needs = checker.needs(reader.tensors[seen.tensor])
    if {(one.start, one.end) for one in seen.stats.within} >= set(needs.ranges):
        return seen
    try:
        kept = reader.tensor(step, seen.tensor)
    except TensightError:
        return seen  # it is judged by what was recorded
    if kept is None or kept.array.size != seen.stats.count:
        return seen
    within = statistics(kept.array, Needs(ranges=needs.ranges)).within
    return msgspec.structs.replace(seen, stats=msgspec.structs.replace(seen.stats, within=within))


def _single(conditions: Any) -> bool:
    return isinstance(conditions, (str, Watchpoint)) or hasattr(conditions, "judge")
