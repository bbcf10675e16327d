"""The hits of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from tensight.errors import SpecError
from tensight.records import Hit
from tensight.runs.words import matches, number, paragraph, table, within

_SHOWN = 50


class Hits(Sequence[Hit]):
    """Hits in order of execution, with the entries that could not be judged (`error` is set, they are no hits).

    `held` leaves those out; `where` filters; `page` cuts.
    """

    def __init__(self, hits: Iterable[Hit]) -> None:
        self._hits = list(hits)

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> Hits: ...
    def __getitem__(self, place: int | slice) -> Hit | Hits:
        return Hits(self._hits[place]) if isinstance(place, slice) else self._hits[place]

    def __len__(self) -> int:
        return len(self._hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self._hits)

    def __eq__(self, other: object) -> bool:
        return self._hits == other._hits if isinstance(other, Hits) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    @property
    def held(self) -> Hits:
        """Without the entries that could not be judged."""
        return Hits(hit for hit in self._hits if hit.error is None)

    def where(
        self,
        condition: str | None = None,
        kind: str | None = None,
        node: str | None = None,
        step: int | range | Iterable[int] | None = None,
        rank: int | None = None,
        watchpoint: int | str | None = None,
        network: str | None = None,
    ) -> Hits:
        """Hits that fit everything that is given.

        `condition` is a code or a name ('TO', 'tensor_overflow'); `node` a glob on module or parameter, where a scope
        means all below it; `step` a number or a range; `watchpoint` an id or a name.
        """
        code = None if condition is None else _code(condition)
        wanted = step if step is None or isinstance(step, (int, range)) else frozenset(step)
        return Hits(
            hit
            for hit in self._hits
            if (code is None or hit.condition == code)
            and (kind is None or hit.kind == kind)
            and (rank is None or hit.rank == rank)
            and (network is None or hit.network == network)
            and (watchpoint is None or watchpoint in (hit.watchpoint, hit.name))
            and within(hit.step, wanted)
            and (node is None or matches(node, hit.node, f"{hit.node}.{hit.slot}"))
        )

    def page(self, number: int, size: int = 50) -> Hits:
        """Page `number`, counted from 0; empty behind the last."""
        return self[number * size : (number + 1) * size]

    def __repr__(self) -> str:
        return f"<Hits: {len(self)}>"

    def _repr_html_(self) -> str:
        rows = [
            (hit.step, hit.rank, hit.condition, hit.kind, hit.node, hit.slot, _values(hit), hit.error or "", hit.note)
            for hit in self._hits[:_SHOWN]
        ]
        head = ("step", "rank", "condition", "kind", "node", "slot", "actual", "error", "note")
        more = f"{len(self) - _SHOWN} more" if len(self) > _SHOWN else ""
        return table(head, rows) + (paragraph(more) if more else "")


def _code(condition: str) -> str:
    from tensight.watchpoints.catalogue import find

    try:
        return find(condition).code
    except SpecError:
        return condition  # of somebody's own, who is not here


def _values(hit: Hit) -> str:
    words = []
    for name, actual in hit.actual.items():
        limit = hit.threshold.get(name)
        words.append(f"{name} {number(actual)}" + ("" if limit is None else f" (set {number(limit)})"))
    return ", ".join(words)
