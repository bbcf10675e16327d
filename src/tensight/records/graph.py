"""The structure of a step: which operators ran, in which module, from which line, and what flows between them.

A graph is written once, by one step after warm-up, or read from a dump. Frameworks make it with
`tensight.records.graph_builder.GraphBuilder`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tensight.records.words import Phase

NodeKind = Literal[
    "operator",
    "parameter",  # named by its own name, in the scope of its module
    "buffer",
    "input",  # what comes from outside: a batch, a constant
    "state",  # what an optimizer keeps
    "region",  # compiled code that is not looked into
]


class Scope(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """A module; the path of a network's root is ''. What runs outside all networks has the network ''."""

    network: str
    path: str
    type: str = ""


class Frame(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """A line of code in a stack. `user` tells the user's own code from libraries."""

    file: str
    line: int
    function: str = ""
    code: str = ""
    user: bool = True


class GraphNode(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """An operator that ran, or what it read from outside.

    Nodes are in order of execution and known by their place in `Graph.nodes`; `inputs` are places before its own.
    """

    name: str  # 'aten.sqrt', 'MatMul'; 'weight' of a parameter
    scope: int  # place in Graph.scopes
    kind: NodeKind = "operator"
    phase: Phase = "forward"
    inputs: tuple[int, ...] = ()
    outputs: tuple[str, ...] = ()  # 'float32[32, 84]'
    stack: int = -1  # place in Graph.stacks
    forward: int = -1  # of a backward operator: its forward operator


class Graph(msgspec.Struct, frozen=True, omit_defaults=True):
    """The structure of one step."""

    name: str  # unique in a rank: 'step 2', 'graph_0'
    step: int
    scopes: tuple[Scope, ...] = ()
    nodes: tuple[GraphNode, ...] = ()
    frames: tuple[Frame, ...] = ()
    stacks: tuple[tuple[int, ...], ...] = ()  # places in frames, innermost first
    files: dict[str, str] = {}  # text of the user's own files that frames name
    left_out: int = 0  # operators that were too many
    note: str = ""  # what qualifies it, in words


class GraphInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """A graph in brief; the graph itself stands in a file of its own."""

    name: str
    step: int
    nodes: int
    file: str  # relative to the rank's part of the run
    size: int = 0
