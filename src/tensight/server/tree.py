"""The tree of modules: what every rank has seen, put together. Ranks of a pipeline hold different modules."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tensight.records import Kind
from tensight.server.answers import NodeRow

if TYPE_CHECKING:
    from tensight import store
    from tensight.server.recording import Recording

Name = tuple[str, str]  # network, path


@dataclass
class Place:
    """A module, or a place of tensors that is none."""

    type: str
    parameters: int = 0
    kinds: dict[Kind, None] = field(default_factory=dict)
    ranks: list[int] = field(default_factory=list)


def rows(run: Recording, step: int | None = None) -> list[NodeRow]:
    """Every place in order, with its hits, of one step or of all; `ranks` is empty when there is only one."""
    with run.lock:
        hits: Counter[Name] = Counter()
        by_rank: dict[Name, Counter[str]] = {}
        several = len(run.readers) > 1
        for hit in run.hits:
            if hit.error is None and step in (None, hit.step):
                name = (hit.network, hit.node)
                hits[name] += 1
                if several:
                    by_rank.setdefault(name, Counter())[str(hit.rank)] += 1
        return [
            NodeRow(
                *name,
                place.type,
                tuple(place.kinds),
                place.parameters,
                hits[name],
                tuple(place.ranks) if several else (),
                dict(by_rank.get(name, {})),
            )
            for name, place in _places(run).items()
        ]


def _places(run: Recording) -> dict[Name, Place]:
    """Kept until the structure changes: counts of hits are asked for far more often."""
    if run.places is None or run.places[0] != (run.structure, len(run.readers)):
        run.reader()  # a run that holds nothing is refused
        found: dict[Name, Place] = {}
        for rank in sorted(run.readers):
            _modules(found, rank, run.readers[rank])
        for rank in sorted(run.readers):
            _tensors(found, rank, run.readers[rank])
        run.places = ((run.structure, len(run.readers)), found)
    return run.places[1]


def _modules(found: dict[Name, Place], rank: int, reader: store.Reader) -> None:
    for network in reader.networks.values():
        sizes: Counter[str] = Counter()
        for parameter in network.parameters:
            sizes[parameter.module] += 0 if parameter.buffer else parameter.size
        for module in network.modules:
            place = found.setdefault((network.name, module.path), Place(module.type, sizes[module.path]))
            place.ranks.append(rank)


def _tensors(found: dict[Name, Place], rank: int, reader: store.Reader) -> None:
    for info in reader.tensors.values():
        place = found.setdefault((info.network, info.node), Place(info.type))
        place.kinds[info.kind] = None
        if rank not in place.ranks[-1:]:
            place.ranks.append(rank)
