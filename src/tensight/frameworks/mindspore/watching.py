"""What all probes of the adapter share: the sink, the tensors that were declared, and how one is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mindspore import Tensor

from tensight.frameworks.adapter import Array, Sink
from tensight.frameworks.memory import OUT_OF_MEMORY
from tensight.frameworks.mindspore.values import Unjudged, copied, dtype_name, measured, view
from tensight.frameworks.source import user_source
from tensight.records import Depth, Kind, Needs, Phase, TensorInfo


class Slot:
    """A declared tensor: its id, and what active watchpoints ask of it."""

    __slots__ = ("_needs", "_version", "info")

    def __init__(self, info: TensorInfo) -> None:
        self.info = info
        self._needs = Needs()
        self._version = -1

    def needs(self, sink: Sink) -> Needs:
        version = sink.needs_version
        if version != self._version:
            self._needs = sink.needs(self.info)
            self._version = version
        return self._needs


class Watching:
    """The sink with the words an adapter needs often. `turn` counts what separates two calls of the same module."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.turn = 0
        self.busy = False  # an operation of our own is running; probes look away
        self.backward = False  # a backward pass is running: cells that are called now are computed again, not called
        self._told: set[str] = set()

    @property
    def all(self) -> bool:
        return self.sink.depth >= Depth.ALL or self.sink.tap is not None

    @property
    def some(self) -> bool:
        return self.sink.depth >= Depth.GRADIENTS

    def declare(self, kind: Kind, node: str, slot: str, tensor: Tensor | Array, **more: Any) -> Slot:
        """Say which tensor is meant, before its first observation."""
        source = user_source() if kind not in ("weight", "frozen", "buffer", "gradient") else None
        info = TensorInfo(
            id=self.sink.new_id(),
            kind=kind,
            node=node,
            slot=slot,
            shape=tuple(tensor.shape),
            dtype=dtype_name(tensor),
            source=source,
            **more,
        )
        self.sink.tensor(info)
        return Slot(info)

    def look(self, slot: Slot, tensor: Any, phase: Phase, before: Array | None = None, scale: float = 1.0) -> None:
        """Take a tensor's statistics now and tell them. `scale` is what its values were multiplied with."""
        info = slot.info
        try:
            array = view(tensor)
            if scale != 1.0:
                array = array / array.dtype.type(scale)
            if before is not None and before.shape != array.shape:
                before = None
            stats = measured(array, slot.needs(self.sink), before)
        except Unjudged as error:
            self.sink.unobserved(info.id, str(error), phase)
            return
        except MemoryError:
            self.sink.unobserved(info.id, OUT_OF_MEMORY, phase)
            return
        shape = tuple(array.shape)
        self.sink.observe(info.id, stats, phase, None if shape == info.shape else shape)
        if self.sink.keep_tensors and self.sink.wants(info.id):
            self.sink.keep(info.id, copied(tensor))

    def probe(self, where: str, call: Callable[..., Any], *args: Any) -> Any:
        """Run a probe; its errors are reported and go no further."""
        try:
            return call(*args)
        except Exception as error:
            self.failed(where, error)
            return None

    def failed(self, where: str, error: BaseException) -> None:
        try:
            self.sink.failed(where, error)
        except Exception:  # there is nobody left to tell, and the training matters more
            return

    def gap(self, what: str, reason: str, remedy: str = "") -> None:
        """Something that is not watched, said once."""
        if what not in self._told:
            self._told.add(what)
            self.sink.gap(what, reason, remedy)


def free_name(base: str, taken: Iterable[str]) -> str:
    """
    >>> free_name("Adam", ["Adam", "SGD"])
    'Adam-2'
    """
    names = set(taken)
    name, count = base, 2
    while name in names:
        name, count = f"{base}-{count}", count + 1
    return name
