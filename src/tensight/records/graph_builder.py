"""Puts a graph together, operator by operator."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from tensight.records.graph import Frame, Graph, GraphNode, NodeKind, Scope
from tensight.records.words import Phase

MOST_NODES = 100_000
SPARE = 3  # so many times more are collected before any are left out
MOST_TEXT = 256 * 1024  # characters of one file of the user's
MOST_FILES = 4 * 1024 * 1024  # of all of them


class GraphBuilder:
    """Collects nodes in order of execution.

    A graph has at most `most` nodes. Of a larger one operators named in `passing` go first, which only show the same
    values in another form; then the last ones.

    >>> builder = GraphBuilder("step 2", 2)
    >>> head = builder.scope("net", "head", "Linear")
    >>> weight = builder.add("weight", head, kind="parameter", outputs=("float32[10, 84]",))
    >>> made = builder.add("aten.addmm", head, inputs=(weight,), stack=builder.stack([Frame("train.py", 31)]))
    >>> graph = builder.build()
    >>> graph.nodes[made].inputs, graph.frames[graph.stacks[0][0]].line
    ((0,), 31)
    """

    def __init__(self, name: str, step: int, *, most: int = MOST_NODES, passing: Collection[str] = ()) -> None:
        self.name = name
        self.step = step
        self.left_out = 0
        self.files: dict[str, str] = {}
        self._most = most
        self._passing = passing
        self._scopes: dict[tuple[str, str], int] = {}
        self._types: list[str] = []
        self._nodes: list[GraphNode] = []
        self._frames: dict[Frame, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self._text = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def scope(self, network: str, path: str, type: str = "") -> int:
        """The number of a module."""
        place = self._scopes.setdefault((network, path), len(self._scopes))
        if place == len(self._types):
            self._types.append(type)
        elif type and not self._types[place]:
            self._types[place] = type
        return place

    def stack(self, frames: Iterable[Frame]) -> int:
        """The number of a stack, innermost frame first."""
        places = tuple(self._frames.setdefault(frame, len(self._frames)) for frame in frames)
        return self._stacks.setdefault(places, len(self._stacks)) if places else -1

    def add(
        self,
        name: str,
        scope: int,
        *,
        kind: NodeKind = "operator",
        phase: Phase = "forward",
        inputs: Sequence[int] = (),
        outputs: Sequence[str] = (),
        stack: int = -1,
        forward: int = -1,
    ) -> int:
        """The number of a new node; -1 when there are too many already. Inputs of -1 are passed over."""
        if len(self._nodes) >= SPARE * self._most:
            self.left_out += 1
            return -1
        known = tuple(dict.fromkeys(place for place in inputs if place >= 0))
        self._nodes.append(GraphNode(name, scope, kind, phase, known, tuple(outputs), stack, forward))
        return len(self._nodes) - 1

    def file(self, name: str, text: str) -> None:
        """The text of a file of the user's, so that lines can be shown where the file is not."""
        if name not in self.files and len(text) <= MOST_TEXT and self._text + len(text) <= MOST_FILES:
            self.files[name] = text
            self._text += len(text)

    def build(self, note: str = "") -> Graph:
        """The graph as collected so far."""
        nodes, left_out = self._thinned()
        scopes = (Scope(network, path, self._types[place]) for (network, path), place in self._scopes.items())
        return Graph(
            name=self.name,
            step=self.step,
            scopes=tuple(scopes),
            nodes=tuple(nodes),
            frames=tuple(self._frames),
            stacks=tuple(self._stacks),
            files=dict(self.files),
            left_out=self.left_out + left_out,
            note=note,
        )

    def _thinned(self) -> tuple[list[GraphNode], int]:
        """The nodes that are kept, with their numbers set right, and how many are not."""
        if len(self._nodes) <= self._most:
            return self._nodes, 0
        kept: list[GraphNode] = []
        new: list[int] = []  # by old place: the place of what stands for it now
        for node in self._nodes:
            inputs = tuple(dict.fromkeys(new[one] for one in node.inputs if new[one] >= 0))
            if node.name in self._passing and len(inputs) == 1:
                new.append(inputs[0])
            elif len(kept) >= self._most:
                new.append(-1)
            else:
                forward = new[node.forward] if node.forward >= 0 else -1
                new.append(len(kept))
                kept.append(msgspec.structs.replace(node, inputs=inputs, forward=forward))
        return kept, len(self._nodes) - len(kept)
