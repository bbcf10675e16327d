"""A look inside compiled code: from time to time a step is run again as Python, in a copy, and what it shows is told.

The copy tells cells' outputs, their gradients, gradients of parameters and what is known of the loss, as PyNative mode
would; the compiled step itself is not touched. Kernels may differ in their last bits from those of the compiled code.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from tensight.frameworks.mindspore.networks import Networks
from tensight.frameworks.mindspore.orders import Unsaid
from tensight.frameworks.mindspore.shadow import Shadow
from tensight.frameworks.mindspore.structure import COPIED, Structure
from tensight.frameworks.mindspore.watching import Watching
from tensight.records import Depth, Event, Observation, TensorInfo
from tensight.records.graph import Graph

FREE = 10
"""Looks that are taken in any case, if they are quick; after them they may take a fiftieth of the time."""
ENOUGH = 3.0
LITTLE = 1.0  # seconds of looks that count for nothing: a short training is looked into in every step
SHARE = 0.02
STUCK = 2  # copies that may get stuck before no other is made
LONG = 20.0  # seconds that a training was held up by one of them, after which no other is made either
FRESH = 50  # looks after which a copy that stays is made anew: of the user's own variables it knows nothing new
_SEEN = frozenset({"weight", "frozen", "buffer"})  # a step that updates by itself does so in the copy too
_OUTSIDE = frozenset({"loss", "prediction", "target"})  # seen outside where only a part is compiled
_Key = tuple[str, str, str, str, int, str]


class Told(msgspec.Struct):
    """What a copy has seen."""

    tensors: list[TensorInfo] = []
    observations: list[Observation] = []
    events: list[Event] = []
    graph: Graph | None = None
    scalars: dict[str, float] = {}
    trouble: str = ""
    worked: float = 0.0  # seconds of computing: where many share a core, a look takes longer than it costs


class Inside:
    """Looks inside compiled steps, while somebody can copy the process (`Shadow.copier`)."""

    def __init__(self, watching: Watching, networks: Networks, shadow: Shadow) -> None:
        self._watching = watching
        self._networks = networks
        self._shadow = shadow
        self.structure: Structure | None = None
        self._known: dict[_Key, TensorInfo] = {}
        self._looks = 0
        self._spent = 0.0
        self._began = time.monotonic()
        self._given_up = False
        self._stuck = 0
        self._follower: Any = None
        self._setting: tuple[Any, ...] = ()  # that the follower was made in
        self._asked = 0

    def look(self, *, gradients: bool, part: bool = False) -> bool:
        """Before a compiled step is told as over; answers whether it was looked into.

        `gradients` of parameters are wanted: nobody else has seen them. `part` of the step is compiled, no more: what
        is seen outside is told by others.
        """
        if not self._watching.all or self._given_up or self._shadow.copier is None or not self._may():
            return False
        if self._shadow.lacks(self._watching.sink.step):
            return False
        begun = time.monotonic()
        self._looks += 1
        answer = self._answer(self._shadow.copier)
        took = time.monotonic() - begun
        if answer is None and self._stuck < STUCK and took < LONG:
            self._stuck += 1  # another copy may do better
            self.end()
            return False
        if not answer:
            self._spent += took
            self._given_up = True
            self.end()
            self._watching.gap("a look inside compiled code", "a copy of the process gave no answer")
            return False
        told = msgspec.msgpack.decode(answer, type=Told)
        self._spent += min(took, told.worked)
        if told.trouble:
            self._given_up = True
            self.end()
            self._watching.gap("a look inside compiled code", told.trouble, "run in PyNative mode to see inside")
        self._tell(told, gradients, part)
        return not told.trouble

    def _answer(self, copier: Any) -> bytes | None:
        """By the copy that stays, while it knows all it needs; by a new one otherwise."""
        setting = self._shadow.setting()
        order = b""  # a new copy is as the training is
        if self._follower is not None and self._setting == setting and self._asked < FRESH:
            try:
                order = self._shadow.order()
            except Unsaid:
                order = b""
        if not order:
            self.end()
            if self._shadow.follow is None:
                return copier(self._shadow, lambda: self._collect(b""))
            self._follower = self._shadow.follow(self._shadow, self._collect)
            self._setting, self._asked = setting, 0
            if self._follower is None:
                return copier(self._shadow, lambda: self._collect(b""))
        self._asked += 1
        return self._follower.ask(order)

    def end(self) -> None:
        """Let the copy that stays go."""
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.end()

    def _may(self) -> bool:
        sink = self._watching.sink
        quick = (self._looks < FREE and self._spent < ENOUGH) or self._spent < LITTLE
        free = not self._looks or quick or sink.level != "watch" or sink.keep_tensors
        return free or self._spent < SHARE * (time.monotonic() - self._began)

    # in a copy

    def _collect(self, order: bytes) -> bytes:
        begun = time.process_time()
        before = self._watching.sink
        sink = Collecting(before.before if isinstance(before, Collecting) else before)
        trouble = ""
        if order:
            try:
                sink.step, sink.structure = self._shadow.obey(order)
            except Exception as error:
                trouble = f"{type(error).__name__}: {error}".splitlines()[0]
        else:
            sink.structure = sink.before.structure
        structure = self.structure if sink.structure else None
        if structure is not None:
            structure.note = COPIED
        trouble = trouble or self._shadow.run_observed(sink)
        sink.structure = False
        if structure is not None:
            structure.over()
        worked = time.process_time() - begun
        return msgspec.msgpack.encode(
            Told(sink.tensors, sink.observations, sink.events, sink.seen_graph, sink.scalars, trouble, worked)
        )

    # in the training

    def _tell(self, told: Told, gradients: bool, part: bool) -> None:
        sink = self._watching.sink
        infos = {info.id: info for info in told.tensors}
        outside = self._outside() if part else frozenset()
        fed = {network.name for network in self._networks.all if network.inputs}  # seen where the step was called
        for one in told.observations:
            info = infos.get(one.tensor)
            if info is None or info.kind in _SEEN or (info.kind == "gradient" and not gradients):
                continue
            if info.kind == "input" and info.network in fed:
                continue
            key = key_of(info)
            if key in outside or (part and info.kind in _OUTSIDE):
                continue
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = msgspec.structs.replace(info, id=sink.new_id())
                sink.tensor(known)
            sink.observe(known.id, one.stats, one.phase, one.shape)
        if told.graph is not None and self.structure is not None and not part:
            self.structure.tell(told.graph)
        for name, value in told.scalars.items():
            sink.scalar(name, value)
        for event in told.events:
            if not (part and event.kind == "loss"):
                sink.event(event.kind, event.part, event.values, event.source)

    def _outside(self) -> frozenset[_Key]:
        """Tensors of cells that Python itself has run."""
        cells = (cell for network in self._networks.all for cell in network.cells)
        return frozenset(key_of(slot.info) for cell in cells for slot in cell.slots.values())


def key_of(info: TensorInfo) -> _Key:
    return (info.kind, info.network, info.node, info.slot, info.call, info.op)


class Collecting:
    """A sink that keeps what it is told, in a copy."""

    def __init__(self, before: Any) -> None:
        self.before = before
        self.step = before.step
        self.depth = Depth.ALL
        self.level = before.level
        self.keep_tensors = False
        self.structure = False
        self.tap = None
        self.needs_version = 0
        self.tensors: list[TensorInfo] = []
        self.observations: list[Observation] = []
        self.events: list[Event] = []
        self.seen_graph: Graph | None = None
        self.scalars: dict[str, float] = {}

    def graph(self, graph: Graph) -> None:
        self.seen_graph = graph

    def scalar(self, name: str, value: float) -> None:
        if name.startswith("probe/"):  # the rest is told by the training itself
            self.scalars[name] = value

    def new_id(self) -> int:
        return len(self.tensors)

    def tensor(self, info: TensorInfo) -> None:
        self.tensors.append(info)

    def needs(self, info: TensorInfo) -> Any:
        return self.before.needs(info)

    def observe(self, tensor: int, stats: Any, phase: Any = "forward", shape: Any = None) -> None:
        self.observations.append(Observation(tensor, len(self.observations), stats, phase, 0, shape))

    def event(self, kind: str, part: str = "", values: Any = None, source: Any = None) -> None:
        if kind in ("loss", "attention", "cut"):
            self.events.append(Event(kind, 0, part, dict(values or {}), source))

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _nothing


def _nothing(*args: object, **kwargs: object) -> None:
    return None
