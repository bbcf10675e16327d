"""Functions that are compiled, and how often each was compiled again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tensight.records import Event, Source

_MOST_REASONS = 8


@dataclass(slots=True)
class Function:
    """One function that torch.compile captures."""

    frame: object
    network: str
    source: Source | None
    again: int = 0  # recompilations so far
    since: int = -1  # step of the first of them
    last: int = -1
    reasons: list[str] = field(default_factory=list)


class Compiles:
    """Follows compile events."""

    def __init__(self) -> None:
        self.functions: dict[object, Function] = {}

    def follow(self, step: int, events: Sequence[Event]) -> None:
        for event in events:
            if event.kind != "compile":
                continue
            frame = event.values.get("frame")
            seen = self.functions.get(frame)
            if seen is None:
                seen = self.functions[frame] = Function(frame, event.part, event.source)
            seen.source = seen.source or event.source
            again = event.values.get("again")
            if isinstance(again, int) and again > seen.again:
                seen.again, seen.last = again, step
                seen.since = step if seen.since < 0 else seen.since
                reason = event.values.get("reason")
                if isinstance(reason, str) and reason and len(seen.reasons) < _MOST_REASONS:
                    seen.reasons.append(reason)
