"""The forward pass: each cell that is called, what it returns, and the gradient of that."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import mindspore
from mindspore import Parameter, Tensor, nn
from mindspore.context import _get_mode

from tensight.frameworks.mindspore.graphs import Graphs
from tensight.frameworks.mindspore.listening import Listening
from tensight.frameworks.mindspore.losses import Losses
from tensight.frameworks.mindspore.networks import OPTIMIZERS, Cell_, Frame, Known, Networks
from tensight.frameworks.mindspore.updates import Updates
from tensight.frameworks.mindspore.values import tensors
from tensight.frameworks.mindspore.watching import Slot, Watching
from tensight.frameworks.source import user_source
from tensight.records import Kind, Phase

Call = Callable[..., Any]


class Cells:
    """Stands in the place of `Cell.__call__`."""

    def __init__(
        self, watching: Watching, networks: Networks, updates: Updates, losses: Losses, graphs: Graphs, recording: Call
    ) -> None:
        self._watching = watching
        self._networks = networks
        self._updates = updates
        self.losses = losses
        self._graphs = graphs
        self._recording = recording  # whether MindSpore records for a gradient now
        self.listening = Listening(watching, networks, self)
        losses.by_hand = self.listening.expressions.tell
        self._thread = 0
        self._process = os.getpid()
        self.stack: list[Frame] = []
        self.phase: Phase = "forward"
        self.inside = 0  # depth of what is neither model nor loss: optimizers, whole training steps in one graph
        self._fed: set[int] = set()

    def patch(self, original: Call) -> Call:
        """`Cell.__call__` with our probes around it."""

        def __call__(cell: nn.Cell, *args: Any, **kwargs: Any) -> Any:
            handler = self._watching.probe("cell", self._handler, cell, args, kwargs)
            if handler is None:
                return original(cell, *args, **kwargs)
            return handler(original, cell, args, kwargs)

        return __call__

    def _handler(self, cell: nn.Cell, args: Any, kwargs: Any) -> Call | None:
        """Who goes along with this call; None when nobody does."""
        watching = self._watching
        if watching.busy or watching.backward or self.inside or not self._mine():
            return None
        if isinstance(cell, OPTIMIZERS):
            return self._optimizer
        if _get_mode() == mindspore.GRAPH_MODE:
            return self._graph
        if self.stack:
            return self._inner if self._networks.cell(cell) or self._newcomer(cell, args) else None
        if isinstance(cell, nn.LossBase):
            return self._loss
        return self._outermost if self._networks.is_model(cell) and has_tensor(args, kwargs) else None

    def _mine(self) -> bool:
        """Only one thread of this process at a time is watched: a data pipeline's workers may call cells too."""
        ident = threading.get_ident()
        if self._thread == ident:
            return True
        if self.stack or self.inside or os.getpid() != self._process:
            return False
        self._thread = ident
        return True

    def adopt(self) -> None:
        """In a copy of the process, whose only thread is the one to watch: nothing runs in it yet."""
        self._thread, self._process = threading.get_ident(), os.getpid()
        self.inside = 0
        self.stack.clear()
        self.losses.forget_slots()
        self.listening.level.forget_slots()

    def _optimizer(self, original: Call, cell: nn.Cell, args: Any, kwargs: Any) -> Any:
        self.inside += 1
        try:
            return self._updates.call(original, cell, args, kwargs)
        finally:
            self.inside -= 1

    def _graph(self, original: Call, cell: nn.Cell, args: Any, kwargs: Any) -> Any:
        self.inside += 1
        try:
            return self._graphs.cell(original, cell, args, kwargs)
        finally:
            self.inside -= 1

    def _loss(self, original: Call, cell: nn.Cell, args: Any, kwargs: Any) -> Any:
        self.inside += 1
        try:
            result = original(cell, *args, **kwargs)
        finally:
            self.inside -= 1
        self._watching.probe("loss cell", self.losses.called, cell, args, result)
        return result

    def _newcomer(self, cell: nn.Cell, args: Any) -> Cell_ | None:
        """A cell inside a known network that was not there before.

        What is fed the batch itself may be another model, a teacher say, that is kept out of this one on purpose.
        """
        caller = self.stack[-1].cell
        trains = self.records and any(id(tensor) not in self._fed for _, tensor in tensors(args, ""))
        return self._networks.newcomer(caller.network, caller.path, cell, trains=trains)

    # the outermost cell

    def _outermost(self, original: Call, cell: nn.Cell, args: Any, kwargs: Any) -> Any:
        watching = self._watching
        network = watching.probe("finding a model", self._enter, cell, args, kwargs)
        if network is None:
            return original(cell, *args, **kwargs)
        listens = self.listen(functions=watching.all)
        try:
            result = self._inner(original, cell, args, kwargs)
        finally:
            if listens:
                watching.probe("operators", self.listening.leave)
            self.stack.clear()
        watching.probe("model", watching.sink.forwarded, network.name)
        watching.probe("expression", self.listening.expressions.returned, result)
        return result

    def listen(self, *, functions: bool = False) -> bool:
        """Begin to see operators, when anybody wants to: then `listening.leave` must follow."""

        def enter() -> bool:
            return self.listening.enter(functions=functions)

        return bool(self._watching.probe("operators", enter))

    def where(self) -> tuple[str, str]:
        """Network and path of the cell that runs now."""
        return (self.stack[-1].cell.network.name, self.stack[-1].cell.path) if self.stack else ("", "")

    def _enter(self, cell: nn.Cell, args: Any, kwargs: Any) -> Known:
        watching = self._watching
        self._updates.before_forward()
        network = self._networks.find(cell)
        records = bool(self._recording() or cell.requires_grad)
        network.has_trained = network.has_trained or cell.training
        training = records and (cell.training or not network.has_trained)
        self.phase = "forward" if training else "evaluation"
        if not training:
            watching.turn += 1
        self._updates.declare_new()
        given = list(tensors(args, "input")) + list(tensors(kwargs, "input"))
        self._fed = {id(tensor) for _, tensor in given}
        self.losses.fed(given[0][1], network.name)
        watching.sink.forward(network.name, training)
        values = {"training": bool(cell.training), "grad": records, "batch": batch_size(given)}
        watching.sink.event("forward", network.name, values, user_source())
        if network.fresh and watching.some:
            network.fresh = False
            self._updates.observe_all(network)
        if watching.all:
            for place, tensor in given:
                slot = network.inputs.get(place)
                if slot is None:
                    slot = network.inputs[place] = watching.declare("input", "", place, tensor, network=network.name)
                watching.look(slot, tensor, self.phase)
        return network

    # every cell

    def _inner(self, original: Call, cell: nn.Cell, args: Any, kwargs: Any) -> Any:
        watching = self._watching
        entered = watching.probe("cell", self._entered, cell, args)
        try:
            result = original(cell, *args, **kwargs)
        finally:
            if entered is not None:
                del self.stack[entered[1] :]
                if entered[1] == 1:
                    self.listening.expressions.begin()
        if entered is not None and watching.all:
            watching.probe("cell output", self._returned, entered[0].cell, entered[0].call, result)
        return result

    def _entered(self, cell: nn.Cell, args: Any) -> tuple[Frame, int] | None:
        """The call that begins, and how deep the stack was before it."""
        known = self._networks.cell(cell)
        if known is None:
            return None
        watching = self._watching
        call = known.call(watching.turn)
        depth = len(self.stack)
        if depth and watching.sink.level != "watch" and watching.all:
            watching.probe("cell input", self._given, known, call, args)
        frame = Frame(known, call)
        self.stack.append(frame)
        return frame, depth

    def _given(self, known: Cell_, call: int, args: Any) -> None:
        for place, tensor in tensors(args, "input"):
            self._watching.look(self.slot(known, "module_input", place, call, tensor), tensor, self.phase)
            if self.follows(tensor):
                self._follow(self._gradient_slot(known, "input_gradient", place, call, tensor), tensor)

    def _returned(self, known: Cell_, call: int, result: Any) -> None:
        kind: Kind = "activation" if known.activation else "output"
        for place, tensor in tensors(result, "output"):
            self._watching.look(self.slot(known, kind, place, call, tensor), tensor, self.phase)
            if known.activation and self.phase == "forward":
                self.losses.made(tensor, known.type)
            if self.follows(tensor):
                self._follow(self._gradient_slot(known, "output_gradient", place, call, tensor), tensor)

    @property
    def records(self) -> bool:
        """Whether MindSpore records for a gradient now."""
        return self.phase == "forward" and bool(self._recording())

    def follows(self, tensor: Tensor) -> bool:
        """Whether a gradient of this tensor will come, and the tensor is not the user's to keep."""
        return (
            self.phase == "forward"
            and id(tensor) not in self._fed
            and not isinstance(tensor, Parameter)
            and tensor.dtype in FLOATS
            and bool(self._recording())
        )

    def _follow(self, slot: Slot, tensor: Tensor) -> None:
        watching = self._watching

        def gradient(value: Any) -> None:
            try:
                if watching.all:
                    watching.look(slot, value, "backward")
            except Exception as error:
                watching.failed("output gradient", error)

        tensor.register_hook(gradient)

    def slot(self, known: Cell_, kind: Kind, place: str, call: int, tensor: Tensor, of: str = "") -> Slot:
        """The declared tensor of a cell's call."""
        key = (kind, place, call)
        slot = known.slots.get(key)
        if slot is None:
            slot = known.slots[key] = self._watching.declare(
                kind, known.path, place, tensor, network=known.network.name, call=call, type=of or known.type
            )
        return slot

    def _gradient_slot(self, known: Cell_, kind: Kind, place: str, call: int, tensor: Tensor) -> Slot:
        key = (kind, place, call)
        slot = known.slots.get(key)
        if slot is None:
            slot = known.slots[key] = self._watching.declare(
                kind, known.path, place, tensor,
                network=known.network.name, call=call, type=known.type, phase="backward",
            )  # fmt: skip
        return slot


FLOATS = (mindspore.float16, mindspore.float32, mindspore.float64, mindspore.bfloat16)


def has_tensor(args: Any, kwargs: Any) -> bool:
    """A model that is given no tensor does something else: it hands out weights, say."""
    return any(True for _ in tensors(args, "")) or any(True for _ in tensors(kwargs, ""))


def batch_size(given: list[tuple[str, Tensor]]) -> int | None:
    return int(given[0][1].shape[0]) if given and given[0][1].ndim else None
