"""The structure of a step: one step after warm-up is looked at operator by operator, for what leads to what.

Values are not looked at, nothing is kept alive, and the operators run as they are. Where code is compiled, or a mode of
the user's own is on, operators cannot be seen without disturbing: then the graph shows each network as one region.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from tensight.frameworks.torch.networks import Networks
from tensight.frameworks.torch.operators import Call, Operators
from tensight.frameworks.torch.operators_level import NOT_SHOWN
from tensight.frameworks.torch.statistics import dtype_name
from tensight.frameworks.torch.structure_scope import OUTSIDE, UPDATE, Place, StructureScope
from tensight.frameworks.torch.structure_stacks import Stacks, begins_backward, called_by_us
from tensight.frameworks.torch.structure_values import Values, storage_of
from tensight.frameworks.torch.watching import Watching
from tensight.records import Phase
from tensight.records.graph import NodeKind
from tensight.records.graph_builder import GraphBuilder

PASSING = frozenset(
    f"aten.{name}"
    for name in (
        "_unsafe_view", "as_strided", "expand", "permute", "select", "slice", "split", "squeeze", "t", "transpose",
        "unbind", "unsqueeze", "view", "clone", "_to_copy",
    )
)  # fmt: skip
"""Operators that only show the same values in another form: the first to go when there are too many."""


class Structure:
    """Follows `sink.structure`: looks at operators in the step in which it is set. Called between steps."""

    def __init__(self, watching: Watching, networks: Networks) -> None:
        self._watching = watching
        self._networks = networks
        self._look: _Look | None = None
        self._begin = watching.probe("structure", self._begin_look)
        self._end = watching.probe("structure", self._end_look)

    def follow(self) -> None:
        """Begin, when the sink asks for it. Called after other modes were put on or taken off."""
        self._begin()

    def over(self) -> None:
        """End, when the step is over. Called before other modes are taken off, since this one lies on top."""
        self._end()

    def stop(self) -> None:
        """Take it off; what was seen so far is forgotten."""
        look, self._look = self._look, None
        if look is not None:
            look.end()
            look.forget()

    def updated(self, *_: object) -> None:
        """An optimizer has stepped."""
        if self._look is not None:
            self._look.scope.updated()

    @property
    def _wanted(self) -> bool:
        return self._watching.active and getattr(self._watching.sink, "structure", False)

    def _begin_look(self) -> None:
        if self._wanted and self._look is None:
            builder = GraphBuilder(f"step {self._watching.sink.step}", self._watching.sink.step, passing=PASSING)
            reason = unsafe(self._networks)
            if reason:
                outline(builder, self._networks)
                self._watching.sink.graph(builder.build(f"operators are not shown: {reason}"))
            else:
                self._look = _Look(builder, self._networks, self._watching)

    def _end_look(self) -> None:
        if self._look is not None and not self._wanted:
            look, self._look = self._look, None
            look.end()
            if look.is_whole and len(look.builder):
                self._watching.sink.graph(look.builder.build())
            look.forget()


class _Look:
    """A look at the operators of one step."""

    lines = True

    def __init__(self, builder: GraphBuilder, networks: Networks, watching: Watching) -> None:
        self.builder = builder
        self.scope = StructureScope(networks)
        self._pid = os.getpid()
        self._thread = threading.get_ident()
        self._values = Values()
        self._stacks = Stacks(builder)
        self._held = _held(networks)
        self._mode = Operators(self, self.scope, watching.failed)
        self.scope.attach()
        self._mode.__enter__()

    @property
    def is_whole(self) -> bool:
        """Whether this is the process that was looked at: a copy of it has seen only a part."""
        return os.getpid() == self._pid

    def end(self) -> None:
        """Inside a mode of the user's it can only fall silent."""
        self._mode.silent = True
        self.scope.detach()
        if _get_current_dispatch_mode() is self._mode:
            self._mode.__exit__(None, None, None)

    def forget(self) -> None:
        """Let go of everything now, not when cycles are collected.

        What is remembered of each storage stands in memory between the storages themselves: while it is there, the
        training gets no large block where small ones were, and its heap grows by a third.
        """
        self._mode.forget()
        del self._mode, self._values, self._stacks, self._held, self.builder

    # an observer of operators

    def before(self, call: Call) -> tuple[list[int], int] | None:
        """What it reads, asked before an operator in place writes over it, and its stack; None when it is not shown."""
        if self.scope.repeats or not self.is_whole or called_by_us():
            return None
        if call.name in NOT_SHOWN or call.name.startswith("profiler."):
            return None
        linked = call.forward is not None and isinstance(call.forward.kept, int)
        stack = -1 if call.phase == "backward" and linked else self._stacks.here()
        if stack is None:
            return None  # a batch is put together: it comes from outside
        call.place = self._place(call)
        return [self._source(tensor, call) for tensor in call.inputs()], stack

    def after(self, call: Call, kept: tuple[list[int], int] | None) -> None:
        try:
            if kept is not None:
                self._add(call, *kept)
        finally:
            call.args, call.kwargs = (), {}  # the calls of a step are remembered for its backward, its tensors not

    def _add(self, call: Call, inputs: list[int], stack: int) -> None:
        outputs = call.outputs()
        if not outputs:
            return  # only a number was read
        forward = call.forward.kept if call.forward is not None else None
        phase: Phase = "backward" if call.name == "aten.ones_like" and begins_backward() else call.phase
        node = self.builder.add(
            call.name,
            self.builder.scope(*call.place),
            phase=phase,
            inputs=inputs,
            outputs=[words(tensor) for tensor in outputs[:8]],
            stack=stack,
            forward=forward if isinstance(forward, int) else -1,
        )
        call.kept = node
        if node < 0:
            return
        changed = {id(tensor) for tensor in call.written()}
        views = _is_view(call.function)
        for tensor in outputs:
            self._values.put(tensor, node, written=id(tensor) in changed or not views)

    def _place(self, call: Call) -> Place:
        if call.phase == "update":
            return UPDATE
        if call.phase != "backward":
            return self.scope.place
        return call.forward.place if call.forward is not None and call.forward.place is not None else OUTSIDE

    def _source(self, tensor: torch.Tensor, call: Call) -> int:
        """The node that a tensor comes from; one that comes from outside gets a node of its own."""
        node = self._values.node(tensor)
        if node >= 0:
            return node
        held = self._held.get(storage_of(tensor) or 0)
        if held is not None:
            kind, home, name = held
            node = self.builder.add(name, self.builder.scope(*home), kind=kind, outputs=[words(tensor)])
        elif tensor.numel() <= 1:
            return -1  # numbers of the program, counts of steps
        else:
            state = call.phase == "update"
            node = self.builder.add(
                "state" if state else "input",
                self.builder.scope(*(UPDATE if state else OUTSIDE)),
                kind="state" if state else "input",
                phase=call.phase if state else "forward",
                outputs=[words(tensor)],
            )
        if node >= 0:
            self._values.put(tensor, node, written=True)
        return node


def unsafe(networks: Networks) -> str:
    """Why operators cannot be looked at without disturbing; '' when they can."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if any(model.compiled for model in networks.models.values()) or (dynamo is not None and dynamo.counters["frames"]):
        return "code is compiled"
    mode = _get_current_dispatch_mode()
    if mode is not None and not isinstance(mode, Operators):
        return "the script runs inside a dispatch mode of its own"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "the step runs inside a function transform"
    return ""


def outline(builder: GraphBuilder, networks: Networks) -> None:
    """Each network as one region with what it holds."""
    before: list[int] = []
    for model in networks.models.values():
        inputs = list(before)
        for held in model.parameters:
            tensor = held.ref()
            if tensor is not None:
                scope = builder.scope(held.network, held.node)
                inputs.append(builder.add(held.slot, scope, kind="parameter", outputs=[words(tensor)]))
        scope = builder.scope(model.name, "", model.type)
        builder.add(f"compiled {model.type}" if model.compiled else model.type, scope, kind="region", inputs=inputs)


def words(tensor: torch.Tensor) -> str:
    """What a tensor is: 'float32[32, 84]'."""
    return f"{dtype_name(tensor.dtype)}[{', '.join(map(str, tensor.shape))}]"


def _held(networks: Networks) -> dict[int, tuple[NodeKind, Place, str]]:
    """Parameters and buffers by their storage."""
    found: dict[int, tuple[NodeKind, Place, str]] = {}
    for model in networks.models.values():
        root = model.ref()
        buffers = [] if root is None else [(name, tensor) for name, tensor in root.named_buffers()]
        for name, tensor in buffers:
            path, _, slot = name.rpartition(".")
            found.setdefault(storage_of(tensor) or 0, ("buffer", Place(model.name, path), slot))
        for held in model.parameters:
            tensor = held.ref()
            if tensor is not None:
                found[storage_of(tensor) or 0] = ("parameter", Place(held.network or model.name, held.node), held.slot)
    found.pop(0, None)
    return found


def _is_view(function: Any) -> bool:
    """Whether a result of an operator is a view of what it was given."""
    return any(one.alias_info is not None and not one.alias_info.is_write for one in function._schema.returns)
