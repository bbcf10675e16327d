"""Nodes of a run chosen by name, pattern or line of code; their tensors; what they affect; and export."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tensight.errors import UsageError
from tensight.records import Source, TensorInfo
from tensight.records.patterns import compiled
from tensight.runs.query import StatsRow, StatsTable, StepsWanted
from tensight.runs.tensor import RunTensor
from tensight.runs.words import matches, paragraph, table, within
from tensight.store import Reader

_BY = ("name", "source")
_SHOWN = 50


class SelectedNode:
    """A node of one rank: a module, an operator inside it, or a parameter."""

    def __init__(self, reader: Reader, node: str, op: str, infos: Sequence[TensorInfo]) -> None:
        self._reader = reader
        self.node = node
        self.op = op
        self.rank = reader.rank
        self.infos = tuple(infos)

    @property
    def name(self) -> str:
        """Module and operator: 'encoder.0/aten.sqrt#1'."""
        return "/".join(filter(None, (self.node, self.op))) or "(root)"

    @property
    def source(self) -> Source | None:
        return next((info.source for info in self.infos if info.source is not None), None)

    def tensors(self, step: StepsWanted = None, slot: str | None = None) -> list[RunTensor]:
        """Its tensors in the steps in which they were looked at."""
        return list(_tensors(self._reader, self.infos, step, slot))

    def __repr__(self) -> str:
        return f"<SelectedNode {self.name} of rank {self.rank}: {len(self.infos)} tensors>"


class SelectedNodes(Sequence[SelectedNode]):
    """Nodes in order of execution, rank by rank."""

    def __init__(self, nodes: Iterable[SelectedNode]) -> None:
        self._nodes = list(nodes)

    def __getitem__(self, place: Any) -> Any:
        return SelectedNodes(self._nodes[place]) if isinstance(place, slice) else self._nodes[place]

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def names(self) -> list[str]:
        """Each name once."""
        return list(dict.fromkeys(node.name for node in self._nodes))

    def tensors(
        self, step: StepsWanted = None, slot: str | None = None, rank: Iterable[int] | int | None = None
    ) -> list[RunTensor]:
        """Their tensors by step, slot and rank: `run.select("fc.*").tensors(step=3, slot="output.0", rank=1)`."""
        wanted = _wanted(rank)
        nodes = [node for node in self._nodes if wanted is None or node.rank in wanted]
        return [tensor for node in nodes for tensor in node.tensors(step, slot)]

    def stats(
        self, step: StepsWanted = None, slot: str | None = None, rank: Iterable[int] | int | None = None
    ) -> StatsTable:
        """Their statistics, as a table that pandas and Arrow understand."""
        rows = []
        for tensor in self.tensors(step, slot, rank):
            info = tensor.info
            rows += [
                StatsRow(tensor.step, tensor.rank, info.network, info.node, info.slot, info.kind, one.micro, one.stats)
                for one in tensor.observations
            ]
        return StatsTable(sorted(rows, key=lambda row: (row.step, row.rank)))

    def __repr__(self) -> str:
        return f"<SelectedNodes: {len(self)}>"

    def _repr_html_(self) -> str:
        rows = [(node.rank, node.name, len(node.infos), _line(node.source)) for node in self._nodes[:_SHOWN]]
        more = f"{len(self) - _SHOWN} more" if len(self) > _SHOWN else ""
        return table(("rank", "node", "tensors", "line"), rows) + (paragraph(more) if more else "")


def select(
    readers: Iterable[Reader],
    query: str,
    *,
    regex: bool = False,
    by: str = "name",
    case_sensitive: bool = True,
    ranks: Iterable[int] | int | None = None,
) -> SelectedNodes:
    """Nodes whose name, or whose line of code, fits a query.

    By name the query is a glob, or a part of the name when it has no wildcard; by source it is a part of
    'file:line code'. With `regex` it is a regular expression in either case.
    """
    if by not in _BY:
        raise UsageError(f"by={by!r}: nodes are selected by {' or '.join(_BY)}")
    pattern = compiled(query, 0 if case_sensitive else re.IGNORECASE) if regex else None
    wanted = _wanted(ranks)
    found = []
    for reader in readers:
        if wanted is not None and reader.rank not in wanted:
            continue
        groups: dict[tuple[str, str, str], list[TensorInfo]] = {}
        for info in reader.tensors.values():
            op = f"{info.op}#{info.call}" if info.op and info.call else info.op
            groups.setdefault((info.network, info.node, op), []).append(info)
        for (_, node, op), infos in groups.items():
            if _fits(query, pattern, _texts(node, op, infos, by), by, case_sensitive):
                found.append(SelectedNode(reader, node, op, infos))
    return SelectedNodes(found)


def _wanted(ranks: Iterable[int] | int | None) -> set[int] | None:
    """The ranks that are asked for; None when all are."""
    return {ranks} if isinstance(ranks, int) else None if ranks is None else set(ranks)


def _texts(node: str, op: str, infos: Sequence[TensorInfo], by: str) -> list[str]:
    if by == "source":
        return [_line(info.source) for info in infos if info.source is not None]
    return list(dict.fromkeys((node, f"{node}/{op}" if op else node, *(info.name for info in infos))))


def _fits(query: str, pattern: re.Pattern[str] | None, texts: Sequence[str], by: str, case_sensitive: bool) -> bool:
    if pattern is not None:
        return any(pattern.search(text) for text in texts)
    if not case_sensitive:
        query, texts = query.lower(), [text.lower() for text in texts]
    if by == "name" and any(char in query for char in "*?["):
        return matches(query, *texts)
    return any(query in text for text in texts)


def _line(source: Source | None) -> str:
    return f"{source.file}:{source.line} {source.code}" if source is not None else ""


def _tensors(reader: Reader, infos: Sequence[TensorInfo], step: StepsWanted, slot: str | None) -> Iterator[RunTensor]:
    chosen = {info.id: info for info in infos if slot is None or info.slot == slot or info.slot.startswith(f"{slot}.")}
    wanted = step if step is None or isinstance(step, (int, range)) else frozenset(step)
    ids = frozenset(chosen)
    for number in reader.steps.numbers:
        if ids and within(number, wanted):
            seen = dict.fromkeys(one.tensor for one in reader.steps.some(number, ids).observations)
            yield from (RunTensor(reader, chosen[id], number) for id in seen)
