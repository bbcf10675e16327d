"""What a captured graph shows of modules: which values leave which module, and the user's line that made them."""

from __future__ import annotations

import hashlib
import math
import operator
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.fx import Graph, Node

from tensight.frameworks.source import is_user_file, source_of
from tensight.frameworks.torch.networks import Entry
from tensight.records import Source

_ACTIVATIONS = frozenset(("relu", "relu6", "sigmoid", "tanh"))
MOST_OUTPUTS = 8  # of one call of a module
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_IN_PLACE = frozenset(
    getattr(operator, name)
    for name in ("setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior")
)


class Mark(NamedTuple):
    """A value that leaves a module: the node that makes it, whose it is, and where it was made."""

    node: str
    entry: Entry
    call: int  # among the calls of this module inside the graph
    slot: str
    source: Source | None
    shape: tuple[int, ...] | None
    function: str = ""  # of an activation that is called as a function: then it need not leave the module

    def shaped(self, x: torch.Tensor) -> torch.Tensor:
        """The value in the module's own shape, where compiled code keeps it in another one."""
        shape = self.shape
        if shape is None or x.shape == shape or not x.is_contiguous() or sorted(x.shape) == sorted(shape):
            return x
        return x.view(shape) if x.numel() == math.prod(shape) else x


class Plan:
    """The marks of one graph. `key` is the same in every process that captures the same graph of the same modules."""

    def __init__(self, marks: list[Mark]) -> None:
        self.marks = marks
        said = repr([(mark.node, mark.entry.network, mark.entry.path, mark.call, mark.slot) for mark in marks])
        self.key = hashlib.sha256(said.encode()).hexdigest()[:16]
        self.calls: dict[int, int] = {}  # module's entry → its calls inside the graph
        for mark in marks:
            self.calls[id(mark.entry)] = max(self.calls.get(id(mark.entry), 0), mark.call + 1)
        self._of: dict[str, list[Mark]] = {}
        for mark in marks:
            self._of.setdefault(mark.node, []).append(mark)
        self.operators = False  # every operator is to be shown, not only what leaves modules
        self.derived = False  # looks stand in graphs that are derived from this one, forward and backward
        # while it runs
        self.base = 0  # its runs since the last backward pass, before this one
        self.stamp = -1
        self.looked = False  # the latest run was looked at
        self.seen: set[str] = set()  # nodes whose values were ever looked at
        self.judged = False
        self._latest = -1

    def of(self, index: int) -> list[Mark]:
        """All marks of the value that a mark is of: it may leave several modules at once."""
        return self._of[self.marks[index].node]

    def begins(self, index: int) -> bool:
        """Whether this look is the first of a run: looks come in the order of the graph."""
        latest, self._latest = self._latest, index
        return index <= latest or latest < 0


def plan(graph: Graph, entry_of: Callable[[int], Entry | None], without: Entry | None) -> Plan:
    """Find the values that leave modules. `entry_of` knows modules by identity; `without` is watched from outside."""
    inside: dict[str, dict[Node, None]] = {}  # call of a module → its nodes, in order
    for node in graph.nodes:
        stack = node.meta.get("nn_module_stack") if node.op.startswith("call_") else None
        for scope in stack or ():
            inside.setdefault(scope, {})[node] = None
    marks: list[tuple[int, int, Mark]] = []
    calls: dict[Entry, int] = {}
    places = {node: place for place, node in enumerate(graph.nodes)}
    for scope, nodes in inside.items():
        name = scope.partition("@")[0]
        entry = entry_of(int(name)) if name.isdigit() else None
        if entry is None or entry is without:
            continue
        call = calls[entry] = calls.get(entry, -1) + 1
        leaving = [
            node for node in nodes if any(user not in nodes for user in node.users) and value_of(node) is not None
        ]
        for index, node in enumerate(leaving[:MOST_OUTPUTS]):
            mark = Mark(node.name, entry, call, f"output.{index}", line_of(node), _shape(node))
            marks.append((places[node], len(nodes), mark))
    marks += [(places[node], 0, mark) for node, mark in _functions(graph, entry_of, calls, without)]
    # of a value that leaves several modules at once, the innermost first: it made the value
    return Plan([mark for _, _, mark in sorted(marks, key=lambda found: found[:2])])


def _functions(
    graph: Graph, entry_of: Callable[[int], Entry | None], calls: dict[Entry, int], outermost: Entry | None
) -> list[tuple[Node, Mark]]:
    """Activations that modules call as functions, numbered in each call as they are where nothing is compiled."""
    found: list[tuple[Node, Mark]] = []
    numbers: Counter[tuple[str, str]] = Counter()
    seen: dict[Entry, dict[str, int]] = {}  # entry → the calls of its module, in order
    for node in graph.nodes:
        stack = node.meta.get("nn_module_stack") if node.op in ("call_function", "call_method") else None
        scope = next(reversed(stack)) if stack else ""  # the outermost module's own lines stand in no scope
        name = scope.partition("@")[0]
        entry = entry_of(int(name)) if name.isdigit() else None if scope else outermost
        if entry is None or not node.op.startswith("call_"):
            continue
        call = seen.setdefault(entry, {}).setdefault(scope, len(seen[entry]))
        function = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if function not in _ACTIVATIONS or entry.activation or value_of(node) is None:
            continue
        number = numbers[scope, function]
        numbers[scope, function] += 1
        if number < MOST_OUTPUTS and call <= calls.get(entry, 0):
            slot = f"{function}.{number}"
            found.append((node, Mark(node.name, entry, call, slot, line_of(node), _shape(node), function)))
    return found


def value_of(node: Node) -> torch.Tensor | None:
    """The stand-in of a floating-point tensor that a node makes."""
    value = node.meta.get("example_value", node.meta.get("val"))
    return value if isinstance(value, torch.Tensor) and value.is_floating_point() else None


def _shape(node: Node) -> tuple[int, ...] | None:
    """The shape of what a node makes, when it is fixed."""
    value = value_of(node)
    fixed = value is not None and all(isinstance(length, int) for length in value.shape)
    return tuple(value.shape) if value is not None and fixed else None


def line_of(node: Node) -> Source | None:
    """The innermost line of the user's code that a node comes from."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    for file, line, function in reversed(frames):
        if is_user_file(file):
            return source_of(file, int(line), function)
    return None


def may_be_renamed(graph: Graph) -> set[Node]:
    """Nodes whose value nobody reads under another name afterwards.

    A mark in a value's way makes it another tensor while the graph is traced. That is only the same program when no
    view or base of the value is used later, and when it is not changed in place through such a second name.
    """
    places = {node: place for place, node in enumerate(graph.nodes)}
    last = {node: max((places[user] for user in node.users), default=-1) for node in graph.nodes}
    sharing: dict[int, list[Node]] = {}
    for node in graph.nodes:
        value = node.meta.get("example_value", node.meta.get("val"))
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            sharing.setdefault(value.untyped_storage()._cdata, []).append(node)
    free = set()
    for nodes in sharing.values():
        changed = max((places[user] for node in nodes for user in node.users if _changes(user, node)), default=-1)
        for index, node in enumerate(nodes):
            earlier = nodes[:index]
            if node.op in ("placeholder", "get_attr") or any(one.op in ("placeholder", "get_attr") for one in earlier):
                continue
            if earlier and changed > places[node]:
                continue
            if all(last[one] <= places[node] for one in earlier):
                free.add(node)
    return free


def _changes(user: Node, node: Node) -> bool:
    """Whether a node may change this argument of it in place."""
    if user.kwargs.get("out") is node:
        return True
    first = user.args[0] if user.args else user.kwargs.get("input", user.kwargs.get("self"))
    if user.op not in ("call_function", "call_method"):
        return user.op == "call_module"
    if first is not node:
        return False
    name = str(user.target) if user.op == "call_method" else getattr(user.target, "__name__", "")
    if (name.endswith("_") and not name.endswith("__")) or name == "__setitem__" or user.target in _IN_PLACE:
        return True
    # `inplace` may be given by place: any True will do for a suspicion
    return bool(user.kwargs.get("inplace")) or any(argument is True for argument in user.args)
