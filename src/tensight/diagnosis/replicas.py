"""Updates that a replica made alone, with gradients that nobody averaged."""

from __future__ import annotations

from collections.abc import Sequence

from tensight.records import Event


class Alone:
    """Counts updates in a row that went past the wrapper that averages gradients."""

    def __init__(self) -> None:
        self.since: int | None = None
        self.count = 0
        self.event: Event | None = None  # the first of them

    def follow(self, step: int, events: Sequence[Event]) -> None:
        updated = False
        for event in events:
            if event.kind == "replica_alone":
                self.count += 1
                if self.since is None:
                    self.since, self.event = step, event
                return
            updated = updated or event.kind == "optimizer_step"
        if updated:
            self.since, self.count, self.event = None, 0, None
