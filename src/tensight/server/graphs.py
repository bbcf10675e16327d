"""Graphs as the server holds them: opened once, with their indexes, and shown with hits and statistics of a step."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import cast

from tensight.errors import NameNotFound
from tensight.records import TensorInfo
from tensight.runs.graph import VIEWS, GraphIndex, GraphView, Item, View, label_of, reveal, view_of
from tensight.runs.relations import Relations
from tensight.runs.stacks import StackIndex
from tensight.server.graph_answers import BoxKind, GraphBox, GraphRow, GraphWhere
from tensight.server.recording import Recording
from tensight.server.routes.steps import value

MOST_OPEN = 4
_lock = threading.Lock()
_open: OrderedDict[tuple[str, int, str, int], Opened] = OrderedDict()


class Opened:
    """A graph with everything that is asked of it."""

    def __init__(self, index: GraphIndex) -> None:
        self.index = index
        self.stacks = StackIndex(index.graph)
        self._relations: dict[View, Relations] = {}

    def relations(self, view: View) -> Relations:
        """Neighbours in one view, found out when they are first asked for."""
        if view not in self._relations:
            self._relations[view] = Relations(self.index.views[view])
        return self._relations[view]

    @cached_property
    def row(self) -> dict[str, int]:
        return {view: int(inside.counts[0]) for view, inside in self.index.views.items()}


def rows(run: Recording, rank: int | None = None, name: str = "") -> list[GraphRow]:
    """The graphs of a run. One of them, the named one or the first of the rank, is opened here: what is asked next is
    then answered at once, and its row is whole."""
    found: list[GraphRow] = []
    with run.lock:
        known = [(rank, info) for rank, reader in sorted(run.readers.items()) for info in reader.graphs.values()]
    asked = [one for one in known if rank in (None, one[0]) and name in ("", one[1].name)] or known
    for rank, info in known:
        with contextlib.suppress(NameNotFound):
            opened = open_graph(run, rank, info.name) if (rank, info) == asked[0] else None
            graph = opened.index.graph if opened else None
            found.append(
                GraphRow(
                    info.name,
                    info.step,
                    rank,
                    info.nodes,
                    opened.row if opened else {},
                    tuple(dict.fromkeys(scope.network for scope in graph.scopes if scope.network)) if graph else (),
                    graph.left_out if graph else 0,
                    graph.note if graph else "",
                )
            )
    return found


def open_graph(run: Recording, rank: int | None, name: str = "") -> Opened:
    """A graph by its name, or the first."""
    with run.lock:
        reader = run.reader(rank)
        names = list(reader.graphs)
        if not names:
            raise NameNotFound("The structure of this run was not recorded: it is written in its third step.")
        name = name or names[0]
        if name not in reader.graphs:
            raise NameNotFound(f"There is no graph {name[:80]!r} in this run.")
        key = (str(run.folder), reader.rank, name, reader.graphs[name].size)
    with _lock:
        if key not in _open:
            graph = reader.graph(name)
            if graph is None:
                raise NameNotFound(f"The file of graph {name[:80]!r} is gone.")
            _open[key] = Opened(GraphIndex(graph))
            while len(_open) > MOST_OPEN:
                _open.popitem(last=False)
        _open.move_to_end(key)
        return _open[key]


class Overlay:
    """Hits and one statistic of a step, by module and parameter."""

    def __init__(self, run: Recording, rank: int | None, step: int | None, statistic: str = "") -> None:
        self._run = run
        self._rank = rank
        self._step = step
        self._statistic = statistic
        hits = run.hits_of(step) if step is not None else []
        self.codes: dict[tuple[str, str], dict[str, None]] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        self._below: dict[View, Counter[int]] = {}
        for hit in hits:
            if hit.error is None and rank in (None, hit.rank):
                place = (hit.network, hit.node)
                self.codes.setdefault(place, {})[hit.condition] = None
                self.counts[place] += 1

    def below(self, view: GraphView) -> Counter[int]:
        """How many hits each box of a view holds."""
        found = self._below.get(view.view)
        if found is not None:
            return found
        found = self._below[view.view] = Counter()
        for (network, path), count in self.counts.items():
            box = view.box(network or None, path)
            while box is not None and box > 0:
                found[box] += count
                box = int(view.parent[box])
        return found

    def values(self, places: Iterable[tuple[str, str, str]]) -> dict[tuple[str, str, str], float | None]:
        """The statistic of each (network, module, slot): of a parameter, or ('') of a module's own output."""
        if not self._statistic or self._step is None:
            return {}
        wanted = set(places)
        with self._run.lock:
            reader = self._run.reader(self._rank)
            ids = {info.id: key for info in reader.tensors.values() if (key := _key(info)) in wanted}
            if not ids or not reader.steps.has(self._step):
                return {}
            seen = reader.steps.some(self._step, frozenset(ids)).observations
        return {ids[one.tensor]: cast("float | None", value(one.stats, self._statistic)) for one in seen}


def _key(info: TensorInfo) -> tuple[str, str, str] | None:
    if info.kind in ("weight", "frozen", "buffer"):
        return info.network, info.node, info.slot
    if info.kind in ("output", "activation") and not info.op:
        return info.network, info.node, ""
    return None


def boxes(view: GraphView, found: Sequence[tuple[int, Item | None, int]], overlay: Overlay) -> tuple[GraphBox, ...]:
    """Boxes to draw for things of a view: (id, range or None, hops)."""
    below = overlay.below(view)
    count = len(view.boxes)
    nodes = view.graph.nodes
    scopes = view.graph.scopes
    places = []
    for id, _, _ in found:
        if id < count:
            places.append((view.boxes[id].network, view.boxes[id].path, ""))
        elif nodes[view.leaves[id - count]].kind in ("parameter", "buffer"):
            node = nodes[view.leaves[id - count]]
            places.append((scopes[node.scope].network, scopes[node.scope].path, node.name))
    values = overlay.values(places)
    made = []
    for id, item, hops in found:
        if item is not None and item.last - item.first > 1:
            made.append(_range(view, int(view.parent[id]), item, below))
        elif id < count:
            box = view.boxes[id]
            codes = tuple(overlay.codes.get((box.network, box.path), ()))
            kind: BoxKind = "module" if box.path else "network"
            made.append(
                GraphBox(
                    view.key_of(id), box.label, kind, view.view, box.network, box.path, box.type,
                    int(view.counts[id]), hits=below[id], codes=codes,
                    value=values.get((box.network, box.path, "")), hops=hops,
                )
            )  # fmt: skip
        else:
            node = nodes[view.leaves[id - count]]
            scope = scopes[node.scope]
            made.append(
                GraphBox(
                    view.key_of(id), node.name, node.kind, view.view, scope.network, scope.path, scope.type,
                    outputs=node.outputs, hops=hops, value=values.get((scope.network, scope.path, node.name)),
                )
            )  # fmt: skip
    return tuple(made)


def _range(view: GraphView, box: int, item: Item, below: Counter[int]) -> GraphBox:
    members = view.members(box, item)
    first = view.boxes[members[0]] if members[0] < len(view.boxes) else None
    return GraphBox(
        item.key,
        label_of(view, box, item),
        "range",
        view.view,
        view.boxes[box].network,
        view.boxes[box].path,
        first.type if first is not None and item.repeated else "",
        int(sum(int(view.counts[one]) for one in members)),
        len(members),
        item.repeated,
        hits=sum(below[one] for one in members),
    )


def node_box(opened: Opened, number: int, overlay: Overlay) -> GraphBox:
    """One node as a box."""
    view = opened.index.view_of(number)
    return boxes(view, [(view.id_of(f"n{number}"), None, 0)], overlay)[0]


def where(view: GraphView, id: int) -> GraphWhere:
    return GraphWhere(view.view, view.key_of(id), tuple(reveal(view, id)))


def view_named(opened: Opened, name: str) -> GraphView:
    """A view by its name; the forward one by default."""
    for view in VIEWS:
        if view == (name or "forward"):
            return opened.index.views[view]
    raise NameNotFound(f"There is no view {name[:40]!r}: choose one of {', '.join(VIEWS)}.")


__all__ = ["Opened", "Overlay", "boxes", "node_box", "open_graph", "rows", "view_named", "view_of", "where"]
