"""What the server answers about graphs and stacks."""

from __future__ import annotations

from typing import Literal

import msgspec

BoxKind = Literal["network", "module", "range", "operator", "parameter", "buffer", "input", "state", "region"]
ViewName = Literal["forward", "backward", "update"]


class GraphRow(msgspec.Struct, frozen=True):
    """A graph in the list."""

    name: str
    step: int
    rank: int
    nodes: int
    operators: dict[str, int]  # by view
    networks: tuple[str, ...]
    left_out: int = 0
    note: str = ""


class GraphBox(msgspec.Struct, frozen=True):
    """A box to draw: a module, a range of several, or a node."""

    key: str
    label: str
    kind: BoxKind
    view: ViewName
    network: str
    path: str  # of the module, or of the module it runs in
    type: str = ""
    operators: int = 1
    members: int = 1  # of a range
    repeated: bool = False  # a range of blocks that are alike
    outputs: tuple[str, ...] = ()
    hits: int = 0  # here and below, at the asked step
    codes: tuple[str, ...] = ()
    value: float | None = None  # of the asked statistic
    hops: int = 0  # in a neighbourhood: away from its centre, negative before it


class GraphLink(msgspec.Struct, frozen=True):
    """An arrow between two boxes, by their places in the list."""

    source: int
    target: int
    count: int = 1
    label: str = ""


class GraphGroup(msgspec.Struct, frozen=True):
    """The inside of a box, or a neighbourhood."""

    key: str
    view: ViewName
    boxes: tuple[GraphBox, ...]
    links: tuple[GraphLink, ...]
    cut: bool = False  # there is more than is shown


class GraphFound(msgspec.Struct, frozen=True):
    """What a search has found."""

    total: int
    boxes: tuple[GraphBox, ...]


class GraphWhere(msgspec.Struct, frozen=True):
    """Where something stands: what must be opened until it is seen."""

    view: ViewName
    key: str
    open: tuple[str, ...]


class StackRow(msgspec.Struct, frozen=True):
    """A frame of a stack; `frame` is the number by which its nodes are asked for."""

    frame: int
    file: str
    line: int
    function: str
    code: str
    user: bool


class GraphNodePage(msgspec.Struct, frozen=True):
    """A node: what it reads, who reads it, its partner in the other pass, and its stack."""

    box: GraphBox
    phase: str
    inputs: tuple[GraphBox, ...]
    readers: tuple[GraphBox, ...]
    forward: GraphBox | None
    backward: tuple[GraphBox, ...]
    stack: tuple[StackRow, ...]


class LineRow(msgspec.Struct, frozen=True):
    """A source line that made operators."""

    frame: int
    file: str
    line: int
    function: str
    code: str
    operators: int


class LinePage(msgspec.Struct, frozen=True):
    """Some of the lines."""

    total: int
    offset: int
    lines: tuple[LineRow, ...]


class LineDetails(msgspec.Struct, frozen=True):
    """A line: the text around it, and the nodes in whose stack it stands."""

    file: str
    line: int
    first: int  # number of the first line of `lines`
    lines: tuple[str, ...]
    total: int
    nodes: tuple[GraphBox, ...]


ALL = (GraphRow, GraphGroup, GraphFound, GraphWhere, GraphNodePage, LinePage, LineDetails)
