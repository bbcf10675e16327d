"""Which module of one run is which of the other.

Strongest evidence first: a mapping the user gives; the same path; a path that a rule renames; and for the rest, the
order of leaves of the same type and output shape. How each pair was found is kept, and shown.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

import msgspec

from tensight.compare import words
from tensight.compare.sides import Side
from tensight.records import Module

_OPERATORS = ("operator", "operator_gradient")
OUTPUTS = ("output", "activation")


class Aligned(msgspec.Struct, frozen=True):
    """A pair of modules, and how it was found: 'mapping', 'path', 'rule' or 'order'."""

    a: str
    b: str
    how: str


class Alignment:
    """Modules of `a` by those of `b`."""

    def __init__(self, pairs: Sequence[Aligned], only_a: Sequence[str], only_b: Sequence[str]) -> None:
        self.pairs = {pair.a: pair for pair in pairs}
        self.from_b = {pair.b: pair.a for pair in pairs}
        self.only_a = list(only_a)
        self.only_b = list(only_b)

    def b_of(self, path: str) -> str | None:
        """What a module of `a` is called in `b`."""
        pair = self.pairs.get(path)
        return pair.b if pair else None


def align(a: Side, b: Side, mapping: Mapping[str, str] | None = None) -> Alignment:
    """Find the pairs of modules of two runs."""
    ours, theirs = _paths(a), _paths(b)
    left, right = dict.fromkeys(ours), dict.fromkeys(theirs)
    pairs: list[Aligned] = []

    def take(one: str, other: str, how: str) -> None:
        pairs.append(Aligned(one, other, how))
        del left[one], right[other]

    for one in list(left):
        other = _mapped(one, mapping or {})
        if other is not None and other in right:
            take(one, other, "mapping")
    for one in list(left):
        if one in right:
            take(one, one, "path")
    if dialect(a) != dialect(b):
        plain = {_renamed(other, theirs): other for other in right}
        for one in list(left):
            other = plain.get(_renamed(one, ours))
            if other is not None and other in right:
                take(one, other, "rule")
    leaves_a, leaves_b = _leaves(a, left), _leaves(b, right)
    matcher = difflib.SequenceMatcher(None, [k for _, k in leaves_a], [k for _, k in leaves_b], autojunk=False)
    for block in matcher.get_matching_blocks():
        for place in range(block.size):
            take(leaves_a[block.a + place][0], leaves_b[block.b + place][0], "order")
    return Alignment(pairs, list(left), list(right))


def _mapped(path: str, mapping: Mapping[str, str]) -> str | None:
    if path in mapping:
        return mapping[path]
    parent = path
    while parent:
        parent = parent.rpartition(".")[0]
        if parent and parent in mapping:
            return mapping[parent] + path[len(parent) :]
    return None


def _paths(reader: Side) -> dict[str, None]:
    found = {module.path: None for network in reader.networks.values() for module in network.modules}
    found.update({info.node: None for info in reader.tensors.values() if info.kind not in _OPERATORS})
    return found


def _renamed(path: str, paths: Mapping[str, None]) -> str:
    parent, dot, last = words.path_of(path).rpartition(".")
    if last in ("dense1", "dense2") and f"{parent}{dot}self_attn" in paths:
        last = last.replace("dense", "linear")
    return f"{parent}{dot}{last}"


def _leaves(reader: Side, among: Mapping[str, None]) -> list[tuple[str, tuple[object, ...]]]:
    """Modules without children in order of execution, each with its type and output's shape."""
    every = _paths(reader)
    parents = {path.rpartition(".")[0] for path in every if path}
    found: dict[str, tuple[object, ...]] = {}
    for info in sorted(reader.tensors.values(), key=lambda one: one.id):
        if info.node in among and info.kind in OUTPUTS and info.node not in parents and info.node not in found:
            found[info.node] = (words.kind_of(info.type).lower(), info.shape)
    return list(found.items())


def dialect(reader: Side) -> str:
    """Whose words a run uses; a program may import both frameworks, so names of parameters tell more than it does."""
    slots = {p.name.rpartition(".")[2] for network in reader.networks.values() for p in network.parameters}
    types = {module.type for network in reader.networks.values() for module in network.modules}
    if slots & {"gamma", "moving_mean", "embedding_table"} or types & {"Dense", "SequentialCell", "CellList"}:
        return "mindspore"
    return "torch" if types & {"Linear", "Sequential", "ModuleList"} else reader.info.framework


def modules_of(side: Side) -> Mapping[str, Module]:
    """Every module of a run by its path."""
    return side.modules
