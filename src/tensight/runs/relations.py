"""What stands near a module or operator: who it reads from and who reads it, several hops up and down."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tensight.runs.graph import GraphView

MOST = 60
"""How many things a neighbourhood shows."""


class Near(msgspec.Struct, frozen=True):
    """Something in a neighbourhood: `hops` is negative for what comes before, 0 for the centre."""

    id: int  # of the view: a box or a leaf
    hops: int


class Neighbourhood(msgspec.Struct, frozen=True):
    """Things and the links between them, as places in `things`; `cut` tells that there are more."""

    things: list[Near]
    links: list[tuple[int, int]]
    cut: bool = False


class Relations:
    """Neighbours of modules (the innermost that hold operators) and of single operators in a view."""

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._before: dict[int, dict[int, None]] = {}
        self._after: dict[int, dict[int, None]] = {}
        self._leaf_before: dict[int, dict[int, None]] = {}
        self._leaf_after: dict[int, dict[int, None]] = {}
        boxes = len(view.boxes)
        parents = view.parent.tolist()
        for left, right in view.edges.tolist():
            a, b = left + boxes, right + boxes
            self._leaf_before.setdefault(b, {})[a] = None
            self._leaf_after.setdefault(a, {})[b] = None
            # operators outside all modules, those of a loss say, stand for themselves
            a, b = parents[a] or a, parents[b] or b
            if a != b:
                self._before.setdefault(b, {})[a] = None
                self._after.setdefault(a, {})[b] = None

    def near(self, id: int, *, up: int = 2, down: int = 2, most: int = MOST) -> Neighbourhood:
        """The neighbourhood of a box or leaf."""
        boxes = len(self._view.boxes)
        leaf = id >= boxes and int(self._view.parent[id]) != 0
        before = self._leaf_before if leaf else self._before
        after = self._leaf_after if leaf else self._after
        inside = {id} if leaf else self._below(id)

        def fold(one: int) -> int:
            return id if one in inside else one

        hops: dict[int, int] = {id: 0}
        cut = False
        for sign, far, ways in ((-1, up, before), (1, down, after)):
            edge: Iterable[int] = inside
            seen = set(inside)  # a block may stand before and after: it is drawn once, and walked through both ways
            for distance in range(1, far + 1):
                fresh: dict[int, None] = {}
                for other in (other for one in edge for other in ways.get(one, ())):
                    if other in seen:
                        continue
                    seen.add(other)
                    if len(hops) > most and other not in hops:
                        cut = True
                        continue
                    hops.setdefault(other, sign * distance)
                    fresh[other] = None
                edge = fresh
        places = {one: place for place, one in enumerate(hops)}
        links: dict[tuple[int, int], None] = {}
        for one in (*hops, *inside):
            for other in after.get(one, ()):
                a, b = fold(one), fold(other)
                if a != b and a in places and b in places:
                    links[places[a], places[b]] = None
        return Neighbourhood([Near(one, distance) for one, distance in hops.items()], list(links), cut)

    def _below(self, id: int) -> set[int]:
        """A box and all boxes inside it."""
        boxes = len(self._view.boxes)
        found = {id}
        waiting = [id] if id < boxes else []
        while waiting:
            for child in self._view.children[waiting.pop()]:
                if child < boxes:
                    found.add(child)
                    waiting.append(child)
        return found
