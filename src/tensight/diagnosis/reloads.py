"""Weights that are loaded into a network between two of its updates, to evaluate it, and left there."""

from __future__ import annotations

from dataclasses import dataclass

from tensight.records import Event, Source

MOST = 256


@dataclass(slots=True)
class Swap:
    """Other weights were loaded, the network was asked with them, and training went on with them."""

    step: int  # the first that trained with the loaded weights
    network: str
    source: Source | None


class Reloads:
    """Follows load_state_dict of trained networks, evaluations and backward passes, in their order.

    >>> reloads = Reloads()
    >>> asked = Event("forward", part="net", values={"grad": False})
    >>> reloads.follow(7, (Event("reloaded", part="net"), asked, Event("backward", part="net")))
    >>> [(swap.step, swap.network) for swap in reloads.swaps]
    [(7, 'net')]
    >>> reloads.follow(8, (Event("reloaded", part="net"), asked, Event("reloaded", part="net"), Event("backward")))
    >>> len(reloads.swaps)
    1
    """

    def __init__(self) -> None:
        self.swaps: list[Swap] = []
        self._loaded: dict[str, Source | None] = {}  # network → the line that loaded last
        self._asked: set[str] = set()  # of those, since then

    def follow(self, step: int, events: tuple[Event, ...]) -> None:
        for event in events:
            kind = event.kind
            if kind == "reloaded":
                self._loaded[event.part] = event.source
                self._asked.discard(event.part)
            elif not self._loaded:
                continue
            elif kind == "forward" and event.part in self._loaded and event.values.get("grad") is False:
                self._asked.add(event.part)
            elif kind == "backward":
                if len(self.swaps) < MOST:
                    self.swaps += [Swap(step, name, self._loaded[name]) for name in sorted(self._asked)]
                self._loaded.clear()
                self._asked.clear()
