"""The first operator inside a module that differs, where both runs recorded operators."""

from __future__ import annotations

from collections.abc import Iterator

from tensight.compare.moments import Moment
from tensight.compare.noise import MARGIN, SINGLE, between, rounding
from tensight.compare.sides import Side
from tensight.records import Observation, Source, TensorInfo

_Key = tuple[str, str, int, str]


def first_operator(a: Side, b: Side, moment: Moment) -> tuple[str | None, Source | None]:
    """The operator's name and line; nothing where operators were not recorded."""
    kind = "operator_gradient" if moment.stage == "backward" else "operator"
    if moment.stage not in ("forward", "backward"):
        return None, None
    theirs = {key: (info, seen) for key, info, seen in _operators(b, moment, moment.b.node, kind)}
    for key, info, seen in _operators(a, moment, moment.module, kind):
        other = theirs.get(key)
        if other is None:
            continue
        floor = 4 * max(rounding(info.dtype), rounding(other[0].dtype), SINGLE)
        if between(seen.stats, other[1].stats, floor).ratio > MARGIN:
            return info.op, info.source
    return None, None


def _operators(side: Side, moment: Moment, module: str, kind: str) -> Iterator[tuple[_Key, TensorInfo, Observation]]:
    for info, seen in side.observations(moment.step):
        if info.kind != kind or info.node != module or "empty" in info.op:
            continue  # what `empty` gives was not written yet
        if seen.phase in ("forward", "backward"):
            yield (info.op, info.slot, info.call, kind), info, seen
