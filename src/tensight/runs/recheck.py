"""Conditions judged again on what was recorded, without running the training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tensight.records import Hit, Watchpoint
from tensight.runs.words import within
from tensight.store import Reader

if TYPE_CHECKING:
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
            found = checker.check(number, record.observations, reader.tensors, rank=reader.rank, updates=number)
            if within(number, step):
                hits.extend(found)
    return sorted(hits, key=lambda hit: (hit.step, hit.rank, hit.order))


def _single(conditions: Any) -> bool:
    return isinstance(conditions, (str, Watchpoint)) or hasattr(conditions, "judge")
