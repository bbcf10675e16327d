"""A recorded graph, arranged for looking at: modules as boxes in boxes, one group at a time, and what stands near."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np

from tensight.errors import NameNotFound
from tensight.records import Graph

View = Literal["forward", "backward", "update"]
VIEWS: tuple[View, ...] = ("forward", "backward", "update")
Ints = np.ndarray[Any, np.dtype[np.int64]]

REPEATED = 3  # so many alike one after the other are folded into one
MOST_ITEMS = 120  # of a group; what is more is folded into ranges
RANGES = 24


class Box(msgspec.Struct):
    """A module, a network, or (number 0) everything."""

    network: str
    path: str
    label: str
    type: str
    parent: int
    depth: int


class Item(msgspec.Struct, frozen=True):
    """What a group shows: a box ('b3'), a node ('n17') or a range of either ('f3:0-12')."""

    key: str
    first: int  # range of places among the children of the group's box
    last: int
    repeated: bool = False


class Link(msgspec.Struct, frozen=True, gc=False):
    """So many tensors flow from one item to another; `node` is the first that makes one."""

    source: int  # places in the group's items
    target: int
    count: int
    node: int


class Group(msgspec.Struct, frozen=True):
    """The inside of a box or range."""

    box: int
    items: list[Item]
    links: list[Link]


class GraphView:
    """The nodes of one phase as a tree of boxes. Ids below `len(boxes)` are boxes; leaf k has id `len(boxes) + k`."""

    def __init__(self, graph: Graph, view: View) -> None:
        self.graph = graph
        self.view = view
        self._mine = np.array([view_of(node.phase) == view for node in graph.nodes], dtype=bool)
        self.boxes: list[Box] = [Box("", "", "", "", -1, 0)]
        self._places: dict[tuple[str, str], int] = {("", ""): 0}
        self._find_boxes()
        scopes = np.array([node.scope for node in graph.nodes], dtype=np.int64)
        mine = np.flatnonzero(self._mine)
        self.leaves: list[int] = mine.tolist()
        self._leaf_of: Ints = np.full(len(graph.nodes), -1, dtype=np.int64)
        self._leaf_of[mine] = np.arange(len(mine))
        count = len(self.boxes)
        own = np.array([box.parent for box in self.boxes], dtype=np.int64)
        self.parent: Ints = np.concatenate([own, self._homes[scopes[mine]]])
        depths = np.array([box.depth for box in self.boxes], dtype=np.int64)
        self._depth: Ints = np.concatenate([depths, depths[self.parent[count:]] + 1])
        self._arrange()
        self._connect()

    def box(self, network: str | None, path: str) -> int | None:
        """The number of a module's box; of any network when none is named."""
        if network is not None:
            return self._places.get((network, path))
        found = [place for (home, inside), place in self._places.items() if inside == path and (home or inside)]
        return found[0] if found else None

    def id_of(self, key: str) -> int:
        """The id of a box or node that a key names."""
        number = key[1:]
        if key[:1] == "b" and number.isdecimal() and int(number) < len(self.boxes):
            return int(number)
        if key[:1] == "n" and number.isdecimal() and int(number) < len(self._leaf_of):
            leaf = int(self._leaf_of[int(number)])
            if leaf >= 0:
                return len(self.boxes) + leaf
        raise NameNotFound(f"There is no {key[:40]!r} in the {self.view} part of this graph.")

    def key_of(self, id: int) -> str:
        return f"b{id}" if id < len(self.boxes) else f"n{self.leaves[id - len(self.boxes)]}"

    def group(self, key: str = "b0") -> Group:
        """The inside of a box or range: repeated blocks are folded, and too many items are made ranges."""
        if key[:1] == "f":
            box, first, last = self._range(key)
            items = (
                self._singles(box, first, last) if last - first <= MOST_ITEMS // 3 else self._ranges(box, first, last)
            )
        else:
            box = self.id_of(key)
            if box >= len(self.boxes):
                raise NameNotFound(f"{key[:40]!r} is an operator: there is nothing inside it.")
            first, last = 0, len(self.children[box])
            items = self._folded(box)
            if len(items) > MOST_ITEMS:
                items = self._ranges(box, first, last)
        return Group(box, items, self._links(box, items, first, last))

    def members(self, box: int, item: Item) -> list[int]:
        """Ids of the children that an item stands for."""
        return self.children[box][item.first : item.last]

    # inside

    def _find_boxes(self) -> None:
        """Boxes of all modules in which a node of this view runs."""
        used = {node.scope for node, mine in zip(self.graph.nodes, self._mine.tolist()) if mine}
        self._homes: Ints = np.zeros(len(self.graph.scopes), dtype=np.int64)
        for place in sorted(used):
            scope = self.graph.scopes[place]
            self._homes[place] = self._box(scope.network, scope.path, scope.type)

    def _box(self, network: str, path: str, type: str = "") -> int:
        known = self._places.get((network, path))
        if known is None:
            if path == "":
                parent, label = 0, network
            else:
                above, _, label = path.rpartition(".")
                parent = self._box(network, above)
            known = self._places[network, path] = len(self.boxes)
            self.boxes.append(Box(network, path, label, type, parent, self.boxes[parent].depth + 1))
        elif type and not self.boxes[known].type:
            self.boxes[known].type = type
        return known

    def _arrange(self) -> None:
        """Children of each box in order of execution, and how many operators are below."""
        count, total = len(self.boxes), len(self.parent)
        firsts = np.full(total, len(self.leaves), dtype=np.int64)
        firsts[count:] = np.arange(len(self.leaves))
        self.counts: Ints = np.zeros(total, dtype=np.int64)
        kinds = (self.graph.nodes[number].kind for number in self.leaves)
        self.counts[count:] = [kind in ("operator", "region") for kind in kinds]
        for depth in range(int(self._depth.max()), 0, -1):
            here = np.flatnonzero(self._depth == depth)
            np.add.at(self.counts, self.parent[here], self.counts[here])
            np.minimum.at(firsts, self.parent[here], firsts[here])
        order = np.lexsort((firsts[1:], self.parent[1:])) + 1
        ends = np.searchsorted(self.parent[order], np.arange(count + 1))
        self.children: list[list[int]] = [order[ends[box] : ends[box + 1]].tolist() for box in range(count)]
        self._place: Ints = np.zeros(total, dtype=np.int64)
        self._place[order] = np.arange(total - 1) - ends[self.parent[order]]

    @cached_property
    def _alike(self) -> list[int]:
        """A number for each box: boxes that hold the same operators in the same modules have the same."""
        count = len(self.boxes)
        names = [self.graph.nodes[number].name for number in self.leaves]
        signs: dict[Any, int] = {}
        alike = [0] * count
        for id in sorted(range(count), key=lambda one: -self.boxes[one].depth):
            inside = tuple(
                (self.boxes[child].label, alike[child]) if child < count else names[child - count]
                for child in self.children[id]
            )
            alike[id] = signs.setdefault((self.boxes[id].type, inside), len(signs))
        return alike

    def _folded(self, box: int) -> list[Item]:
        children = self.children[box]
        items: list[Item] = []
        place = 0
        while place < len(children):
            end = place + 1
            if children[place] < len(self.boxes):
                kind = self._alike[children[place]]
                while end < len(children) and children[end] < len(self.boxes) and self._alike[children[end]] == kind:
                    end += 1
            if end - place >= REPEATED:
                items.append(Item(f"f{box}:{place}-{end}", place, end, repeated=True))
            else:
                items.extend(self._singles(box, place, end))
            place = end
        return items

    def _singles(self, box: int, first: int, last: int) -> list[Item]:
        children = self.children[box]
        return [Item(self.key_of(children[place]), place, place + 1) for place in range(first, last)]

    def _ranges(self, box: int, first: int, last: int) -> list[Item]:
        size = max(MOST_ITEMS // 3, -(-(last - first) // RANGES))
        items = []
        for start in range(first, last, size):
            end = min(last, start + size)
            items += self._singles(box, start, end) if end - start == 1 else [Item(f"f{box}:{start}-{end}", start, end)]
        return items

    def _range(self, key: str) -> tuple[int, int, int]:
        try:
            box, _, ends = key[1:].partition(":")
            first, _, last = ends.partition("-")
            found = (int(box), int(first), int(last))
        except ValueError:
            found = (-1, 0, 0)
        if not 0 <= found[0] < len(self.boxes) or not 0 <= found[1] < found[2] <= len(self.children[found[0]]):
            raise NameNotFound(f"There is no {key[:40]!r} in the {self.view} part of this graph.")
        return found

    def _connect(self) -> None:
        """Give each edge to the innermost box that holds both ends."""
        inputs = [self.graph.nodes[number].inputs for number in self.leaves]
        sources = np.fromiter(itertools.chain.from_iterable(inputs), dtype=np.int64)
        targets = np.repeat(np.arange(len(inputs)), [len(one) for one in inputs])
        leaves = self._leaf_of[sources]
        inside = leaves >= 0
        self.edges: Ints = np.stack([leaves[inside], targets[inside]], axis=1)
        left = self.edges[:, 0] + len(self.boxes)
        right = self.edges[:, 1] + len(self.boxes)
        depth = self._depth
        while True:
            deeper = depth[left] > depth[right]
            if not deeper.any():
                break
            left = np.where(deeper, self.parent[left], left)
        while True:
            deeper = depth[right] > depth[left]
            if not deeper.any():
                break
            right = np.where(deeper, self.parent[right], right)
        while True:
            apart = self.parent[left] != self.parent[right]
            if not apart.any():
                break
            left = np.where(apart, self.parent[left], left)
            right = np.where(apart, self.parent[right], right)
        self._left, self._right = left, right
        home = self.parent[left]
        order = np.argsort(home, kind="stable")
        self._by_home = order
        self._home_ends = np.searchsorted(home[order], np.arange(len(self.boxes) + 1))

    def _links(self, box: int, items: Sequence[Item], first: int, last: int) -> list[Link]:
        mine = self._by_home[self._home_ends[box] : self._home_ends[box + 1]]
        if not len(mine) or not items:
            return []
        source, target = self._place[self._left[mine]], self._place[self._right[mine]]
        inside = (source >= first) & (source < last) & (target >= first) & (target < last)
        mine, source, target = mine[inside], source[inside], target[inside]
        starts = np.array([item.first for item in items])
        a = np.searchsorted(starts, source, "right") - 1
        b = np.searchsorted(starts, target, "right") - 1
        apart = a != b
        codes, places, counts = np.unique((a * len(items) + b)[apart], return_index=True, return_counts=True)
        examples = self.edges[mine[apart][places], 0]
        return [
            Link(int(code) // len(items), int(code) % len(items), int(number), self.leaves[int(example)])
            for code, number, example in zip(codes, counts, examples)
        ]


def view_of(phase: str) -> View:
    """The part of a graph in which a phase is shown.

    >>> view_of("evaluation")
    'forward'
    """
    return "backward" if phase == "backward" else "update" if phase == "update" else "forward"


class GraphIndex:
    """A graph with its views and its search index, made when it is opened."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.views: dict[View, GraphView] = {view: GraphView(graph, view) for view in VIEWS}
        self._build_search()

    @cached_property
    def backward(self) -> dict[int, list[int]]:
        """For each forward operator its backward operators."""
        found: dict[int, list[int]] = {}
        for number, node in enumerate(self.graph.nodes):
            if node.forward >= 0:
                found.setdefault(node.forward, []).append(number)
        return found

    @cached_property
    def readers(self) -> dict[int, list[int]]:
        """For each node who reads what it makes."""
        found: dict[int, list[int]] = {}
        for number, node in enumerate(self.graph.nodes):
            for source in node.inputs:
                found.setdefault(source, []).append(number)
        return found

    def view_of(self, number: int) -> GraphView:
        """The view in which a node is."""
        return self.views[view_of(self.node(number).phase)]

    def node(self, number: int) -> Any:
        if not 0 <= number < len(self.graph.nodes):
            raise NameNotFound(f"There is no node {number} in this graph.")
        return self.graph.nodes[number]

    def search(self, text: str, most: int = 50) -> tuple[list[tuple[View, str]], int]:
        """Keys of modules and nodes whose path, name or type holds all words of a text, and how many there are."""
        words = text.lower().split()
        if not words:
            return [], 0
        longest = max(words, key=len)
        places: list[int] = []
        start = self._text.find(longest)
        while start >= 0:
            place = int(np.searchsorted(self._starts, start, "right")) - 1
            line = self._text[self._starts[place] : self._starts[place + 1] - 1]
            if all(word in line for word in words):
                places.append(place)
            start = self._text.find(longest, int(self._starts[place + 1]))
        return [self._entry(place) for place in places[:most]], len(places)

    def _entry(self, place: int) -> tuple[View, str]:
        if place < self._boxes:
            return self._found[place]
        number = place - self._boxes
        return view_of(self.graph.nodes[number].phase), f"n{number}"

    def _build_search(self) -> None:
        self._found: list[tuple[View, str]] = []
        lines: list[str] = []
        for view, inside in self.views.items():
            for number, box in enumerate(inside.boxes[1:], 1):
                self._found.append((view, f"b{number}"))
                lines.append(_line(f"{box.network} {box.path} {box.type}"))
        scopes = [_line(f"{scope.network} {scope.path} ")[:-1] for scope in self.graph.scopes]
        names = {name: _line(name) for name in {node.name for node in self.graph.nodes}}
        self._boxes = len(lines)
        lines.extend([scopes[node.scope] + names[node.name] for node in self.graph.nodes])
        self._text = "".join(lines)
        ends = np.cumsum([len(line) for line in lines], dtype=np.int64) if lines else np.zeros(0, dtype=np.int64)
        self._starts: Ints = np.concatenate([np.zeros(1, dtype=np.int64), ends])


def _line(text: str) -> str:
    return text.lower().replace("\n", " ") + "\n"


def label_of(view: GraphView, box: int, item: Item) -> str:
    """What an item is called: its own name, or 'layers.0–11' of a range.

    A range is named by its first and last member.
    """
    members: Iterable[int] = (view.children[box][item.first], view.children[box][item.last - 1])
    names = [
        view.boxes[id].label if id < len(view.boxes) else view.graph.nodes[view.leaves[id - len(view.boxes)]].name
        for id in members
    ]
    if item.last - item.first == 1:
        return names[0]
    above = view.boxes[box].label
    return f"{above}.{names[0]}–{names[1]}" if names[0].isdecimal() and above else f"{names[0]}–{names[1]}"


def reveal(view: GraphView, id: int) -> list[str]:
    """Keys of what must be opened, one after the other, until something is seen: boxes and ranges around it."""
    chain = [id]
    while int(view.parent[chain[-1]]) > 0:
        chain.append(int(view.parent[chain[-1]]))
    keys: list[str] = []
    box = 0
    for child in reversed(chain):
        key, wanted = f"b{box}", view.key_of(child)
        while True:
            group = view.group(key)
            key = next(item.key for item in group.items if child in view.members(group.box, item))
            if key == wanted:
                break
            keys.append(key)
        if child < len(view.boxes) and child != id:
            keys.append(wanted)
        box = child
    return keys
