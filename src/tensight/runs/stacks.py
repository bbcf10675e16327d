"""Source lines that made operators: the list of them, the stack of a node, and the text around a line."""

from __future__ import annotations

from functools import cached_property

import msgspec

from tensight.errors import NameNotFound
from tensight.records import Graph
from tensight.records.graph import Frame

AROUND = 12  # lines shown on each side
LONGEST = 400  # characters of a line


class SourceLine(msgspec.Struct, frozen=True):
    """A line and how many operators it has made; `frame` is its number."""

    frame: int
    file: str
    line: int
    function: str
    code: str
    operators: int


class Excerpt(msgspec.Struct, frozen=True):
    """Text around a line; empty when the recording does not hold the file."""

    file: str
    line: int
    first: int
    lines: tuple[str, ...]


class StackIndex:
    """Lines and stacks of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def _nodes(self) -> dict[int, list[int]]:
        """For each frame of the user's code the nodes in whose stack it stands."""
        by_stack: dict[int, list[int]] = {}
        for number, node in enumerate(self._graph.nodes):
            if node.stack >= 0:
                by_stack.setdefault(node.stack, []).append(number)
        found: dict[int, list[int]] = {}
        for stack, numbers in by_stack.items():
            for frame in dict.fromkeys(self._graph.stacks[stack]):
                if self._graph.frames[frame].user:
                    found.setdefault(frame, []).extend(numbers)
        return found

    @cached_property
    def _made(self) -> dict[int, int]:
        """For each frame how many operators it has made itself: it is the innermost of the user's."""
        found: dict[int, int] = {}
        innermost = [self._innermost(stack) for stack in self._graph.stacks]
        for node in self._graph.nodes:
            frame = innermost[node.stack] if node.stack >= 0 else -1
            if frame >= 0:
                found[frame] = found.get(frame, 0) + 1
        return found

    def lines(self, text: str = "") -> list[SourceLine]:
        """Lines that made operators, by file and line; those whose file, function or code hold all words of a text."""
        words = text.lower().split()
        found: dict[tuple[str, int], SourceLine] = {}
        for place, count in self._made.items():
            frame = self._graph.frames[place]
            if words and not _holds(frame, words):
                continue
            known = found.get((frame.file, frame.line))
            found[frame.file, frame.line] = SourceLine(
                known.frame if known else place,
                frame.file,
                frame.line,
                frame.function,
                frame.code[:LONGEST],
                count + (known.operators if known else 0),
            )
        return [found[key] for key in sorted(found)]

    def nodes(self, place: int) -> list[int]:
        """Nodes in whose stack a line stands, in order of execution."""
        frame = self._frame(place)
        same = [
            other
            for other, one in enumerate(self._graph.frames)
            if one.user and (one.file, one.line) == (frame.file, frame.line)
        ]
        return sorted({number for other in same for number in self._nodes.get(other, ())})

    def stack(self, number: int) -> list[tuple[int, Frame]]:
        """The stack of a node, innermost first; a backward operator has that of its forward operator."""
        node = self._graph.nodes[number]
        if node.stack < 0 and node.forward >= 0:
            node = self._graph.nodes[node.forward]
        if node.stack < 0:
            return []
        return [(place, self._graph.frames[place]) for place in self._graph.stacks[node.stack]]

    def excerpt(self, place: int) -> Excerpt:
        """The text around a line, as it was when the graph was recorded."""
        frame = self._frame(place)
        text = self._graph.files.get(frame.file)
        if text is None:
            return Excerpt(frame.file, frame.line, frame.line, (frame.code[:LONGEST],) if frame.code else ())
        lines = text.splitlines()
        first = max(1, frame.line - AROUND)
        shown = tuple(line[:LONGEST] for line in lines[first - 1 : frame.line + AROUND])
        return Excerpt(frame.file, frame.line, first, shown)

    def _frame(self, place: int) -> Frame:
        if not 0 <= place < len(self._graph.frames):
            raise NameNotFound(f"There is no line {place} in this graph.")
        return self._graph.frames[place]

    def _innermost(self, stack: tuple[int, ...]) -> int:
        return next((place for place in stack if self._graph.frames[place].user), -1)


def _holds(frame: Frame, words: list[str]) -> bool:
    text = f"{frame.file}:{frame.line} {frame.function} {frame.code}".lower()
    return all(word in text for word in words)
