"""What a node's values flow into, and what they came from; graphs and stacks as tables."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tensight.errors import MissingExtra, NameNotFound, UsageError
from tensight.records import Graph
from tensight.records.patterns import compiled
from tensight.runs.words import matches, paragraph, table
from tensight.store import Reader

_SHOWN = 50
_COLUMNS = ("graph", "rank", "node", "operator", "kind", "phase", "inputs", "outputs", "file", "line", "code", "stack")


class AffectedNode(msgspec.Struct, frozen=True):
    """A node that can be reached, `distance` edges away."""

    name: str
    operator: str
    module: str
    phase: str
    distance: int
    source: str


class Affected(Sequence[AffectedNode]):
    """Nodes by distance, the nearest first."""

    def __init__(self, nodes: Iterable[AffectedNode]) -> None:
        self._nodes = list(nodes)

    def __getitem__(self, place: Any) -> Any:
        return Affected(self._nodes[place]) if isinstance(place, slice) else self._nodes[place]

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def names(self) -> list[str]:
        return [node.name for node in self._nodes]

    def __repr__(self) -> str:
        return f"<Affected: {len(self)} nodes>"

    def _repr_html_(self) -> str:
        rows = [(node.distance, node.name, node.phase, node.source) for node in self._nodes[:_SHOWN]]
        more = f"{len(self) - _SHOWN} more" if len(self) > _SHOWN else ""
        return table(("distance", "node", "phase", "line"), rows) + (paragraph(more) if more else "")


def affected(reader: Reader, query: str, *, up: bool = False, regex: bool = False) -> Affected:
    """Nodes down (or up) the graph from all that a query names: a glob or part of a name, or a pattern."""
    graphs = [graph for graph in map(reader.graph, reader.graphs) if graph is not None]
    if not graphs:
        raise NameNotFound(f"{reader.folder} has no graph: it is recorded by the third step, or comes with a dump")
    pattern = compiled(query) if regex else None
    for graph in graphs:
        names = node_names(graph)
        start = [place for place, name in enumerate(names) if _fits(name, query, pattern)]
        if start:
            return Affected(_walk(graph, names, start, up))
    raise NameNotFound(f"no node of the graph fits {query!r}")


def node_names(graph: Graph) -> list[str]:
    """A name for each node: module, operator, and which of its kind: 'encoder.0/aten.sqrt#1'."""
    counts: dict[str, int] = {}
    names = []
    for node in graph.nodes:
        path = graph.scopes[node.scope].path
        base = f"{path}.{node.name}".strip(".") if node.kind != "operator" else f"{path}/{node.name}".strip("/")
        number = counts.get(base, 0)
        counts[base] = number + 1
        names.append(f"{base}#{number}" if number else base)
    return names


def _fits(name: str, query: str, pattern: re.Pattern[str] | None) -> bool:
    if pattern is not None:
        return pattern.search(name) is not None
    return matches(query, name) if any(char in query for char in "*?[") else query in name


def _walk(graph: Graph, names: Sequence[str], start: Sequence[int], up: bool) -> list[AffectedNode]:
    edges: list[list[int]] = [list(node.inputs) for node in graph.nodes]
    if not up:
        made: list[list[int]] = [[] for _ in edges]
        for place, inputs in enumerate(edges):
            for one in inputs:
                made[one].append(place)
        edges = made
    distance = dict.fromkeys(start, 0)
    waiting = list(start)
    for place in waiting:  # grows while it is walked
        for other in edges[place]:
            if other not in distance:
                distance[other] = distance[place] + 1
                waiting.append(other)
    return [
        AffectedNode(
            names[place],
            graph.nodes[place].name,
            graph.scopes[graph.nodes[place].scope].path,
            graph.nodes[place].phase,
            distance[place],
            _line(graph, place),
        )
        for place in waiting
        if distance[place]
    ]


def _line(graph: Graph, place: int) -> str:
    frame = next(iter(_user_frames(graph, place)), None)
    return f"{frame[0]}:{frame[1]} {frame[2]}" if frame else ""


def _user_frames(graph: Graph, place: int) -> list[tuple[str, int, str]]:
    number = graph.nodes[place].stack
    frames = [graph.frames[one] for one in graph.stacks[number]] if number >= 0 else []
    return [(frame.file, frame.line, frame.code) for frame in frames if frame.user]


def export_graphs(readers: Iterable[Reader], folder: Path, form: str = "csv") -> list[Path]:
    """Each graph of each rank as a table of nodes, edges and stacks."""
    if form not in ("csv", "xlsx"):
        raise UsageError(f"form={form!r}: graphs are exported as csv or xlsx")
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for reader in readers:
        for number, name in enumerate(reader.graphs):
            graph = reader.graph(name)
            if graph is not None:
                path = folder / f"graph_{number}_rank_{reader.rank}.{form}"
                _write(path, _rows(graph, name, reader.rank), form)
                made.append(path)
    return made


def _rows(graph: Graph, name: str, rank: int) -> list[tuple[Any, ...]]:
    names = node_names(graph)
    rows = []
    for place, node in enumerate(graph.nodes):
        stack = _user_frames(graph, place)
        first = stack[0] if stack else ("", "", "")
        inputs = " ".join(names[one] for one in node.inputs)
        lines = "; ".join(f"{file}:{line}" for file, line, _ in stack)
        outputs = " ".join(node.outputs)
        rows.append((name, rank, names[place], node.name, node.kind, node.phase, inputs, outputs, *first, lines))
    return rows


def _write(path: Path, rows: Sequence[tuple[Any, ...]], form: str) -> None:
    shown = [[_cell(value) for value in row] for row in rows]
    if form == "csv":
        with open(path, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([_COLUMNS, *shown])
        return
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtra("openpyxl", "xlsx", "a graph as an Excel file") from error
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("graph")
    for row in (_COLUMNS, *shown):
        sheet.append([_printable(value) for value in row])
    book.save(path)


def _cell(value: Any) -> Any:
    """Text that a spreadsheet shows and does not run."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _printable(value: Any) -> Any:
    """Excel refuses control characters."""
    return "".join(char for char in value if char.isprintable())[:32_000] if isinstance(value, str) else value
