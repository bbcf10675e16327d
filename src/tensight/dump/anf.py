"""MindSpore's graph files (`ms_output_trace_code_graph_{n}.pb`): who feeds whom, and the lines each node came from.

The file is protobuf. Only the few fields that matter are read and written, by their numbers:
model 1 version, 4 graph; graph 1 node; node 1 input {1 name}, 2 name, 3 type, 4 scope, 8 full name, 9 source lines.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tensight.dump.naming import operator_name
from tensight.errors import FormatError
from tensight.records import Graph, Source
from tensight.store.protobuf import field, fields, number

MOST_BYTES = 1 << 30
MOST_NODES = 2_000_000
_PLACE = re.compile(r"In file (.+?)(?::(\d+)|\((\d+)\))(?:~\d+)?(?:, \d+(?:~\d+)?)?/")
_AFTER = re.compile(r"/#?<~~")  # what follows the code where a line was read in by another
_LONGEST = 4096  # characters of a line that are looked at


class Node(NamedTuple):
    """An operator of a graph. `inputs` are full names of operators, or names of parameters."""

    name: str
    type: str
    inputs: tuple[str, ...] = ()
    stack: tuple[Source, ...] = ()  # innermost first
    outputs: tuple[str, ...] = ()  # 'float32[4, 8]', as far as a file says it


class Anf:
    """Nodes by their full name, in order of execution."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}

    def add(self, node: Node) -> None:
        self.nodes.setdefault(node.name, node)

    def encode(self) -> bytes:
        """The file, as MindSpore lays it out.

        >>> graph = Anf()
        >>> graph.add(Node("Default/fc/MatMul-op0", "MatMul", ("fc.weight",), (Source("net.py", 3, "y = self.fc(x)"),)))
        >>> decode(graph.encode(), "graph").nodes == graph.nodes
        True
        """
        numbers = {name: str(place) for place, name in enumerate(self.nodes, 1)}
        parts = []
        for name, node in self.nodes.items():
            made = [field(1, field(1, numbers.get(one, one).encode())) for one in node.inputs]
            made += [field(2, numbers[name].encode()), field(3, node.type.encode())]
            made += [field(4, name.rpartition("/")[0].encode()), field(8, name.encode())]
            made += [field(9, f"# In file {s.file}:{s.line}, 0~0/{s.code}/".encode()) for s in node.stack]
            parts.append(field(1, b"".join(made)))
        return number(1 << 3) + number(1) + field(4, b"".join(parts))


def from_record(graph: Graph) -> Anf:
    """A recorded graph in MindSpore's words: operators are named as in the files of a dump."""
    made = Anf()
    names: list[str] = []
    counts: dict[tuple[str, str, str], int] = {}
    for node in graph.nodes:
        path = graph.scopes[node.scope].path
        place = (path, node.name, node.phase)
        count = counts[place] = counts.get(place, -1) + 1
        if node.kind == "operator":
            type, name = operator_name(*place, count)
        else:
            type, name = node.kind.capitalize(), f"{path}.{node.name}" if path else node.name
        names.append(name)
        frames = [graph.frames[one] for one in graph.stacks[node.stack]] if node.stack >= 0 else []
        lines = tuple(Source(one.file, one.line, one.code, one.function) for one in frames if one.user)
        made.add(Node(name, type, tuple(names[one] for one in node.inputs), lines))
    return made


def read(path: Path) -> Anf:
    """A graph file of a dump."""
    if path.stat().st_size > MOST_BYTES:
        raise FormatError(f"{path} has more than {MOST_BYTES:,} bytes: it is no graph file")
    return decode(path.read_bytes(), str(path))


def decode(data: bytes, where: str) -> Anf:
    try:
        return _decode(memoryview(data))
    except (IndexError, ValueError, UnicodeDecodeError) as error:
        raise FormatError(f"{where} is not a graph of MindSpore, or is damaged: {error}") from error


def _decode(data: memoryview) -> Anf:
    raw: list[tuple[str, str, str, list[str], tuple[Source, ...]]] = []
    for key, body in fields(data):
        if key != 4 or isinstance(body, int):
            continue
        for inside, node in fields(body):
            if inside == 1 and not isinstance(node, int):
                raw.append(_node(node))
                if len(raw) > MOST_NODES:
                    raise ValueError(f"it has more than {MOST_NODES:,} nodes")
    if not raw:
        raise ValueError("it has no nodes")
    full = {short: name for short, name, *_ in raw}
    graph = Anf()
    for _, name, type, inputs, stack in raw:
        graph.add(Node(name, type, tuple(full.get(one, one) for one in inputs if not one.startswith("cst")), stack))
    return graph


def _node(data: memoryview) -> tuple[str, str, str, list[str], tuple[Source, ...]]:
    texts = {2: "", 3: "", 4: "", 8: ""}
    inputs: list[str] = []
    lines: list[Source] = []
    for key, body in fields(data):
        if isinstance(body, int):
            continue
        if key == 1:
            inputs += [str(one, "utf-8") for place, one in fields(body) if place == 1 and not isinstance(one, int)]
        elif key in texts:
            texts[key] = str(body, "utf-8")
        elif key == 9:
            found = map(source_line, str(body, "utf-8", "replace").splitlines())
            lines += [line for line in found if line is not None]
    return texts[2], texts[8] or f"{texts[4]}/{texts[3]}".strip("/"), texts[3], inputs, tuple(lines)


def source_line(text: str) -> Source | None:
    """
    >>> source_line("# In file net.py:10, 30~40/        x = self.conv1(x)/")
    Source(file='net.py', line=10, code='x = self.conv1(x)', function='')
    >>> source_line("# In file net.py(263)/        output = self.conv2d(x, self.weight)/#").line  # MindSpore 1.x
    263
    """
    text = text[:_LONGEST]
    found = _PLACE.match(text, max(0, text.find("In file ")))
    if found is None or len(number := found[2] or found[3]) >= 9:
        return None
    rest = text[found.end() :]
    after = _AFTER.search(rest)
    code = rest[: after.start()] if after else rest.rstrip().removesuffix("#").removesuffix("/")
    return Source(found[1], int(number), code.strip())
