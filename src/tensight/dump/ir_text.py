"""MindSpore's IR as text (`NN_execute_*.ir`, `NN_validate_*.ir`, …): operators, shapes, who feeds whom, source lines.

A file is a list of subgraphs. A node is a line `%3(x) = MatMul(%1, %para2_fc.weight)`, followed by a line of types
`: (…) -> (<Tensor[Float32], (4, 8)>)`, its name `# Fullname with scope: (…)` and its source lines, outermost first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tensight.dump.anf import MOST_BYTES, MOST_NODES, Anf, Node, source_line
from tensight.errors import FormatError
from tensight.records import Source

LONGEST = 1 << 20  # characters of a line that are looked at
_NODE = re.compile(r"\s*%(\d+)\((.*?)\)\s*=\s*(.+)")
_LAST = re.compile(r"\s*(Return)(\(.*)")
_PARAMETER = re.compile(r"\s*%para(\d+)_([^\s:]+?)\s*:\s*(.*)")
_SUBGRAPH = re.compile(r"subgraph @([^\s(]+)\((.*)")
_NAME = re.compile(r"\s*# (?:(Fullname with scope|[Ss]cope):? *)?\((.*)\)\s*")
_TENSOR = re.compile(r"<(?:Ref\[)?Tensor\[(\w+)\]\]?, \(([-\d, ]*)\)")
_USED = re.compile(r"%para(\d+)_|%(\d+)|@@?([^\s,()\[\]]+)")
_TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?$)')  # one that has no end takes the rest: no line is read twice
_CALLEE = re.compile(r"(?:PrimFunc_|PrimitivePy::|DoSignaturePrimitive::|S-Prim-)?([A-Za-z_][\w.]*)\(")
_STATES = ("accum", "moment", "stat", "mean_square", "mean_gradient", "adam_", "learning_rate", "global_step")
_POWERS = ("beta1_power", "beta2_power", "weight_decay")


@dataclass
class _Line:
    """A node as it stands in the file."""

    subgraph: str
    number: str
    type: str
    uses: list[tuple[str, str]]  # ('para' | 'node' | 'graph', which)
    name: str = ""
    scope: str = ""
    outputs: tuple[str, ...] = ()
    typed: bool = False
    stack: list[Source] = field(default_factory=list)


def read(path: Path) -> Anf:
    """The graph in a file."""
    if path.stat().st_size > MOST_BYTES:
        raise FormatError(f"{path} has more than {MOST_BYTES:,} bytes: it is no IR that can be read here")
    with path.open(encoding="utf-8", errors="replace") as text:
        return parse(_lines(text), str(path))


def _lines(text: Iterable[str]) -> Iterator[str]:
    for line in text:
        yield line[:LONGEST]


def parse(lines: Iterable[str], where: str) -> Anf:
    """The graph in lines of text.

    >>> text = '''# IR entry: @net
    ... %para1_x: <Tensor[Float32], (4, 6)> : [4, 6]
    ... subgraph @net() {
    ...   %0(y) = PrimFunc_ReLU(%para1_x) {instance name: relu}
    ...       : (<Tensor[Float32], (4, 6)>) -> (<Tensor[Float32], (4, 6)>)
    ...       # Fullname with scope: (Default/act-ReLU/ReLU-op0)
    ...       # In file net.py:12, 8~30/        return self.act(x)/
    ... }'''
    >>> node = parse(text.splitlines(), "text").nodes["Default/act-ReLU/ReLU-op0"]
    >>> node.type, node.inputs, node.outputs, node.stack[0].line
    ('ReLU', ('x',), ('float32[4, 6]',), 12)
    """
    parameters: dict[str, Node] = {}  # by number
    found: list[_Line] = []
    now: _Line | None = None
    subgraph = ""
    known = False
    for line in lines:
        known = known or line.startswith(("# IR entry", "#IR entry", "subgraph @"))
        if now is not None and _told(now, line):
            continue
        opened = _SUBGRAPH.match(line)
        if opened is not None and line.rstrip().endswith("{"):
            subgraph, now = opened[1], None
            for number, name in re.findall(r"%para(\d+)_([^\s,:)]+)", opened[2]):
                parameters.setdefault(number, Node(name, "Input"))
            continue
        parameter = _PARAMETER.match(line)
        if parameter is not None and now is None:
            parameters.setdefault(parameter[1], _parameter(parameter[2], parameter[3]))
            continue
        made = _node(line, subgraph)
        if made is not None:
            now = made
            found.append(made)
            if len(found) > MOST_NODES:
                raise FormatError(f"{where} has more than {MOST_NODES:,} nodes: it is no IR that can be read here")
        elif line.startswith("}"):
            now = None
    if not known or not found:
        raise FormatError(f"{where} is no IR of MindSpore: it has no subgraph with nodes")
    return _linked(parameters, found)


def _told(node: _Line, line: str) -> bool:
    """Take a line that says more about a node; False when it does not."""
    text = line.lstrip()
    if text.startswith(": "):
        if not node.typed:
            node.typed = True
            node.outputs = tensors(text.rpartition("-> ")[2])
        return True
    if not text.startswith("#"):
        return False
    source = source_line(text)
    if source is not None:
        node.stack.append(source)
        return True
    named = _NAME.fullmatch(line.rstrip("\n"))
    if named is not None:
        if (named[1] or "").startswith("Full"):
            node.name = named[2]
        else:
            node.scope = named[2]
    return True


def _node(line: str, subgraph: str) -> _Line | None:
    found = _NODE.match(line)
    if found is not None:
        number, rest = found[1], found[3]
    else:
        last = _LAST.match(line)
        if last is None:
            return None
        number, rest = "return", last[1] + last[2]
    rest = _TEXT.sub('""', rest)
    callee = _CALLEE.match(rest)
    type = callee[1] if callee is not None and callee[1] != "call" else "call"
    uses = []
    for parameter, node, graph in _USED.findall(_arguments(rest)):
        uses.append(("para", parameter) if parameter else ("node", node) if node else ("graph", graph))
    return _Line(subgraph, number, type, uses)


def _arguments(text: str) -> str:
    """What is called and what it is given, without the attributes that follow.

    >>> _arguments("Add(%1, Tuple(%2, (1))) {instance name: add} cnode_attrs: {a: %9}")
    'Add(%1, Tuple(%2, (1)))'
    """
    depth = 0
    for place, letter in enumerate(text):
        if letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
            if depth <= 0:
                return text[: place + 1]
    return text


def tensors(text: str) -> tuple[str, ...]:
    """
    >>> tensors("(<Ref[Tensor[Float32]], (8, 6), ref_key=first.weight, is_parameter>)")
    ('float32[8, 6]',)
    """
    return tuple(f"{dtype.lower()}[{shape.strip()}]" for dtype, shape in _TENSOR.findall(text)[:64])


def _parameter(name: str, words: str) -> Node:
    held = "is_parameter" in words or "has_default" in words
    last = name.rpartition(".")[2]
    if not held:
        type = "Input"
    elif name.startswith(_STATES) or name in _POWERS:
        type = "State"
    else:
        type = "Buffer" if last in ("moving_mean", "moving_variance") else "Parameter"
    return Node(name, type, outputs=tensors(words))


def _linked(parameters: dict[str, Node], found: list[_Line]) -> Anf:
    graph = Anf()
    used = {which for line in found for what, which in line.uses if what == "para"}
    for number, node in parameters.items():
        if number in used:
            graph.add(node)
    names: dict[tuple[str, str], str] = {}
    returns: dict[str, str] = {}  # subgraph → the node it answers with
    counts: Counter[str] = Counter()
    for line in found:
        inputs = []
        for what, which in line.uses:
            if what == "para":
                name = parameters[which].name if which in parameters else ""
            elif what == "node":
                name = names.get((line.subgraph, which), "")
            else:
                name = returns.get(which, "")
            if name:
                inputs.append(name)
        if line.type == "Return":
            if inputs:
                returns[line.subgraph] = inputs[0]
            continue
        name = _own_name(line, counts, graph)
        names[line.subgraph, line.number] = name
        graph.add(Node(name, line.type, tuple(dict.fromkeys(inputs)), tuple(reversed(line.stack)), line.outputs))
    return graph


def _own_name(line: _Line, counts: Counter[str], graph: Anf) -> str:
    name = line.name if "/" in line.name else f"{line.scope or 'Default'}/{line.type}-op{line.number}"
    if name not in graph.nodes:
        return name
    counts[name] += 1
    while f"{name}~{counts[name]}" in graph.nodes:
        counts[name] += 1
    return f"{name}~{counts[name]}"
