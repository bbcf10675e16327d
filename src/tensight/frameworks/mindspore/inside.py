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
from tensight.frameworks.mindspore.shadow import Shadow
from tensight.frameworks.mindspore.watching import Watching
from tensight.records import Depth, Event, Observation, TensorInfo

FREE = 3
"""Looks that are taken in any case, if they are quick; after them they may take a fiftieth of the time."""
ENOUGH = 3.0
SHARE = 0.02
_Key = tuple[str, str, str, str, int, str]


class Told(msgspec.Struct):
    """What a copy has seen."""

    tensors: list[TensorInfo] = []
    observations: list[Observation] = []
    events: list[Event] = []
    trouble: str = ""


class Inside:
    """Looks inside compiled steps, while somebody can copy the process (`Shadow.copier`)."""

    def __init__(self, watching: Watching, networks: Networks, shadow: Shadow) -> None:
        self._watching = watching
        self._networks = networks
        self._shadow = shadow
        self._known: dict[_Key, TensorInfo] = {}
        self._looks = 0
        self._spent = 0.0
        self._began = time.monotonic()
        self._given_up = False

    def look(self, *, gradients: bool) -> bool:
        """Before a compiled step is told as over; answers whether it was looked into.

        `gradients` of parameters are wanted: nobody else has seen them.
        """
        if not self._watching.all or self._given_up or self._shadow.copier is None or not self._may():
            return False
        if self._shadow.lacks(self._watching.sink.step):
            return False
        begun = time.monotonic()
        self._looks += 1
        answer = self._shadow.copier(self._shadow, self._collect)
        self._spent += time.monotonic() - begun
        if not answer:
            self._given_up = True
            self._watching.gap("a look inside compiled code", "a copy of the process gave no answer")
            return False
        told = msgspec.msgpack.decode(answer, type=Told)
        if told.trouble:
            self._given_up = True
            self._watching.gap("a look inside compiled code", told.trouble, "run in PyNative mode to see inside")
        self._tell(told, gradients)
        return not told.trouble

    def _may(self) -> bool:
        sink = self._watching.sink
        quick = self._looks < FREE and self._spent < ENOUGH
        free = not self._looks or quick or sink.level != "watch" or sink.keep_tensors
        return free or self._spent < SHARE * (time.monotonic() - self._began)

    # in a copy

    def _collect(self) -> bytes:
        sink = Collecting(self._watching.sink)
        trouble = self._shadow.run_observed(sink)
        return msgspec.msgpack.encode(Told(sink.tensors, sink.observations, sink.events, trouble))

    # in the training

    def _tell(self, told: Told, gradients: bool) -> None:
        sink = self._watching.sink
        infos = {info.id: info for info in told.tensors}
        fed = {network.name for network in self._networks.all if network.inputs}  # seen where the step was called
        for one in told.observations:
            info = infos.get(one.tensor)
            if info is None or (info.kind == "gradient" and not gradients):
                continue
            if info.kind == "input" and info.network in fed:
                continue
            key = (info.kind, info.network, info.node, info.slot, info.call, info.op)
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = msgspec.structs.replace(info, id=sink.new_id())
                sink.tensor(known)
            sink.observe(known.id, one.stats, one.phase, one.shape)
        for event in told.events:
            sink.event(event.kind, event.part, event.values, event.source)


class Collecting:
    """A sink that keeps what it is told, in a copy."""

    def __init__(self, before: Any) -> None:
        self._before = before
        self.step = before.step
        self.depth = Depth.ALL
        self.level = before.level
        self.keep_tensors = False
        self.structure = False
        self.needs_version = -1
        self.tensors: list[TensorInfo] = []
        self.observations: list[Observation] = []
        self.events: list[Event] = []

    def new_id(self) -> int:
        return len(self.tensors)

    def tensor(self, info: TensorInfo) -> None:
        self.tensors.append(info)

    def needs(self, info: TensorInfo) -> Any:
        return self._before.needs(info)

    def observe(self, tensor: int, stats: Any, phase: Any = "forward", shape: Any = None) -> None:
        self.observations.append(Observation(tensor, len(self.observations), stats, phase, 0, shape))

    def event(self, kind: str, part: str = "", values: Any = None, source: Any = None) -> None:
        if kind in ("loss", "attention"):
            self.events.append(Event(kind, 0, part, dict(values or {}), source))

    def __getattr__(self, name: str) -> Callable[..., None]:
        return _nothing


def _nothing(*args: object, **kwargs: object) -> None:
    return None
