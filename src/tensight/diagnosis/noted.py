"""Events that are rare and told as they are: what attention looks at, formats that change, workers, lines of code."""

from __future__ import annotations

from collections.abc import Sequence

from tensight.records import Event

KINDS = frozenset(
    {"attention", "casts", "cast_loss", "workers", "cut", "permuted", "stranger", "graph_alive", "loaded"}
    | {"replicas_differ", "alike", "held", "same_order", "still_scaled", "over_rows", "terms_counted"}
    | {"stored_written", "own_slope", "moved_axes", "agreeing", "fed_by", "number_in_loss", "hooks_kept", "reseeded"}
    | {"grown", "fixed_part", "divided_by_zero"}
)
PROMPT = frozenset({"replicas_differ"})  # what rules are asked about at once
MOST = 128  # of each kind, the first ones


class Noted:
    """The first events of each such kind, with their steps.

    >>> noted = Noted()
    >>> noted.follow(3, (Event("casts", part="net"),))
    False
    >>> [(step, event.part) for step, event in noted.of("casts")]
    [(3, 'net')]
    """

    def __init__(self) -> None:
        self._events: dict[str, list[tuple[int, Event]]] = {}

    def follow(self, step: int, events: Sequence[Event]) -> bool:
        """Answers whether something is among them that should not wait."""
        prompt = False
        for event in events:
            if event.kind in KINDS:
                kept = self._events.setdefault(event.kind, [])
                if len(kept) < MOST:
                    kept.append((step, event))
                    prompt = prompt or event.kind in PROMPT
        return prompt

    def of(self, kind: str) -> list[tuple[int, Event]]:
        return self._events.get(kind, [])
