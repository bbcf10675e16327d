"""Programs run bare and under an adapter, once each, for the tests of the adapter suite."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from tensight.frameworks import table
from tensight.frameworks.capabilities import CAPABILITIES
from tensight.records import Depth, Level
from tensight.testing.adapter_programs import Outcome, Programs
from tensight.testing.fakes import RecordingSink

T = TypeVar("T", bound="Watched")
STEPS = 3


def capability(name: str) -> Callable[[Callable[[T], None]], Callable[[T], None]]:
    """Marks the test of a capability; where an adapter lacks it, the published reason is checked."""
    assert name in CAPABILITIES, name

    def wrap(test: Callable[[T], None]) -> Callable[[T], None]:
        @functools.wraps(test)
        def inner(self: T) -> None:
            if name in self.adapter().cannot:
                self.check_published(name)
            else:
                test(self)

        inner.capability = name  # type: ignore[attr-defined]
        return inner

    return wrap


class Watched(Programs):
    """What a program does by itself and under the adapter; each is run once."""

    _cache: ClassVar[dict[tuple[Any, ...], Any]] = {}

    def plain(self, program: str, steps: int = STEPS) -> Outcome:
        """What a program does by itself; run once."""
        return self._once((program, steps), lambda: getattr(self, program)(steps))

    def watched(
        self, program: str, steps: int = STEPS, depth: Depth = Depth.ALL, level: Level = "watch"
    ) -> tuple[Outcome, RecordingSink]:
        """What it does under the adapter, and what the adapter said; run once."""

        def run() -> tuple[Outcome, RecordingSink]:
            sink = RecordingSink(depth, level)
            return self.under(sink, program, steps), sink

        return self._once((program, steps, depth, level), run)

    def under(self, sink: RecordingSink, program: str, steps: int = STEPS) -> Outcome:
        """Run a program with an adapter that reports to `sink`."""
        adapter = self.adapter()
        adapter.attach(sink)
        try:
            outcome: Outcome = getattr(self, program)(steps)
        finally:
            adapter.detach()
        outcome.held.clear()
        return outcome

    def _once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        full = (type(self), *key)
        if full not in self._cache:
            self._cache[full] = make()
        return self._cache[full]

    def check_published(self, name: str) -> None:
        """A capability that is lacking is declared with a reason, in the table that the documentation shows."""
        adapter = self.adapter()
        assert adapter.cannot[name], f"{adapter.name} gives no reason why it cannot do {name}"
        assert table.published(adapter.name)[name] == adapter.cannot[name]

    def cannot(self, name: str) -> bool:
        return name in self.adapter().cannot
