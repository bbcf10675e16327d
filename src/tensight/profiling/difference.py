"""Two profiles side by side, and what has changed."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from tensight.profiling.reading import Reading
from tensight.records.timing import PARTS


class Changed(msgspec.Struct, frozen=True):
    """Something in both profiles: seconds of a step in each."""

    what: str
    before: float
    after: float

    @property
    def change(self) -> float:
        """
        >>> Changed("data", 0.2, 0.05).change < 0
        True
        """
        return self.after - self.before


class TimeDifference(msgspec.Struct, frozen=True):
    """What has changed from one profile to another."""

    step: Changed
    parts: tuple[Changed, ...]
    operators: tuple[Changed, ...]
    settings: tuple[tuple[str, str, str], ...]  # name, before, after


_FACTS = ("device", "threads", "compiled", "anomaly", "parameters", "deterministic", "half_parameters", "mode")
MOST = 40


def difference(before: Reading, after: Reading) -> TimeDifference:
    """
    >>> from tensight.records.timing import Profile, StepTime
    >>> a, b = (Reading(Profile(steps=(StepTime(0, "clock", s, data=s),))) for s in (0.2, 0.1))
    >>> difference(a, b).step
    Changed(what='step', before=0.2, after=0.1)
    """
    parts = tuple(Changed(part, before.split[part], after.split[part]) for part in PARTS)
    first, second = _operators(before), _operators(after)
    rows = [Changed(name, first.get(name, 0.0), second.get(name, 0.0)) for name in {**first, **second}]
    rows.sort(key=lambda row: -abs(row.change))
    settings = []
    for name in _FACTS:
        a, b = before.fact(name), after.fact(name)
        if a != b:
            settings.append((name, str(a), str(b)))
    for what in ("workers", "batch_size", "pinned", "persistent"):
        a, b = (getattr(reading.loader, what, None) for reading in (before, after))
        if a != b:
            settings.append((f"loader {what}", str(a), str(b)))
    return TimeDifference(Changed("step", before.seconds, after.seconds), parts, tuple(rows[:MOST]), tuple(settings))


def _operators(reading: Reading) -> dict[str, float]:
    steps = max(1.0, reading.number("traced_steps"))
    found: dict[str, float] = defaultdict(float)
    for one in reading.profile.operators:
        found[one.name] += one.seconds / steps
    return dict(found)
