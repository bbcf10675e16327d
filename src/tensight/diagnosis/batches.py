"""What the training is fed, as loaders tell it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensight.records import Event, Source
from tensight.records.event import Value


@dataclass(slots=True)
class LoaderBatches:
    """The batches of one loader."""

    name: str
    first_nan: int = -1
    nan_values: dict[str, Value] = field(default_factory=dict)  # of the first batch with a NaN
    source: Source | None = None


class Batches:
    """Follows batch events."""

    def __init__(self) -> None:
        self.loaders: dict[str, LoaderBatches] = {}

    def follow(self, step: int, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.kind != "batch":
                continue
            seen = self.loaders.get(event.part)
            if seen is None:
                seen = self.loaders[event.part] = LoaderBatches(event.part)
            seen.source = event.source or seen.source
            if seen.first_nan < 0 and any(value for key, value in event.values.items() if key.startswith("nan.")):
                seen.first_nan = step
                seen.nan_values = event.values

    def at(self, step: int) -> LoaderBatches | None:
        """The loader whose first batch with a NaN came in this step."""
        return next((seen for seen in self.loaders.values() if seen.first_nan == step), None)
