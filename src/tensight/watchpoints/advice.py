"""What a hit means and what to do about it, from the words of its condition and the numbers of the hit."""

from __future__ import annotations

import msgspec

from tensight.records import Hit
from tensight.watchpoints.catalogue import CONDITIONS
from tensight.watchpoints.condition import Condition
from tensight.watchpoints.expression import Expression

_SIGNS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


class Advice(msgspec.Struct, frozen=True):
    """What to show beside a hit."""

    title: str
    measured: tuple[str, ...]  # each parameter that held: 'max 120, set to > 100'
    finds: str
    matters: str
    causes: tuple[str, ...]
    try_: tuple[str, ...]


def advice(hit: Hit) -> Advice:
    """The advice for a hit.

    >>> hit = Hit(3, 1, "", "TL", "output", "head", "output.0", 7, actual={"max_gt": 120}, threshold={"max_gt": 100})
    >>> advice(hit).measured
    ('max 120, set to > 100',)
    """
    condition: type[Condition] = CONDITIONS.get(hit.condition, Expression)
    measured = [_measured(name, value, hit.threshold.get(name)) for name, value in hit.actual.items()]
    return Advice(
        title=condition.title,
        measured=tuple(measured + [hit.note] * bool(hit.note)),
        finds=condition.finds,
        matters=condition.matters,
        causes=condition.causes,
        try_=condition.try_,
    )


def _measured(name: str, value: float, threshold: float | None) -> str:
    stem, _, ending = name.rpartition("_")
    if threshold is None:
        return f"{value:.6g} {name}"
    if ending in _SIGNS:
        return f"{stem} {value:.6g}, set to {_SIGNS[ending]} {threshold:.6g}"
    return f"{name}: {value:.6g} against {threshold:.6g}"
