"""Level op: every operator of forward, backward and update, with its module, its line and its forward operator."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import tensight
from tensight.frameworks.patches import stands_in
from tensight.frameworks.source import source_of, user_site, user_source
from tensight.frameworks.torch.operators_scope import Scope
from tensight.frameworks.torch.shards import PLAIN, local
from tensight.records import Phase, Source

_sequence = torch._C._autograd._get_sequence_nr
_node = torch._C._current_autograd_node
_OURS = os.path.dirname(os.path.abspath(tensight.__file__)) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_OPTIMIZERS = os.path.join(_TORCH, "optim", "")
_MACHINERY = (
    os.path.abspath(__file__),  # another such mode, on top of this one
    *(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"operators_{part}.py") for part in ("beside", "level")),
    *(_TORCH + name for name in ("_compile.py", "_dynamo", "_ops.py", os.path.join("utils", "_python"))),
)
_NUMBERS = frozenset((int, float, bool, str, type(None)))  # arguments that hold no tensor
_NO_SEQUENCE = 2**64 - 1  # what nodes that belong to no forward operator have


@dataclass(slots=True, eq=False)
class Call:
    """One operator that ran."""

    order: int
    facts: Facts
    function: Any  # the OpOverload
    args: tuple
    kwargs: dict
    phase: Phase
    module: str
    site: tuple[str, int, str] | None  # file, line, function
    ours: bool  # called by Tensight itself, not by the training
    forward: Call | None = None  # of a backward operator: the forward operator it belongs to
    node: str = ""  # of a backward operator: 'SqrtBackward0'
    result: Any = None
    kept: Any = None  # what the observer wants to find again in the backward
    place: Any = None  # the same: where it ran

    @property
    def source(self) -> Source | None:
        return source_of(*self.site) if self.site is not None else None

    def line(self) -> Source | None:
        """The user's line that made this call; right only while the operator runs."""
        return self.source if self.site is not None else user_source(2)

    @property
    def name(self) -> str:
        """'aten.sqrt'"""
        return self.facts.name

    @property
    def mutable(self) -> bool:
        return self.facts.mutable

    def inputs(self) -> list[torch.Tensor]:
        """What the operator reads; an argument that is only written to (`out=`) is none."""
        found: list[torch.Tensor] = []
        for value in self.args:
            if type(value) in PLAIN:  # nearly always
                found.append(value)
            elif type(value) not in _NUMBERS:
                _gather(value, found)
        if self.kwargs:
            out = self.facts.out
            for name, value in self.kwargs.items():
                if name not in out:
                    _gather(value, found)
        return found

    def written(self) -> list[torch.Tensor]:
        """Tensors that the operator changes in place."""
        return written(self.facts, self.args, self.kwargs)

    def outputs(self) -> list[torch.Tensor]:
        return outputs(self.result, self.written() if self.facts.mutable else [])


class Facts(NamedTuple):
    """What an operator's schema says of it."""

    function: Any
    name: str  # 'aten.sqrt'
    mutable: bool
    written: tuple[tuple[int, str], ...]  # place and name of each argument that it changes in place
    out: frozenset[str]  # names of those that it only writes


_facts: dict[int, Facts] = {}  # by id, which is kept: an operator's own hash, and its schema, are slow


def facts(function: Any) -> Facts:
    """
    >>> facts(torch.ops.aten.mul_.Tensor)[1:4]
    ('aten.mul_', True, ((0, 'self'),))
    """
    known = _facts.get(id(function))
    if known is None:
        schema = function._schema
        arguments = schema.arguments
        written = tuple(
            (i, a.name) for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write
        )
        out = frozenset(argument.name for argument in arguments if argument.is_out)
        name = schema.name.replace("::", ".")  # `function.namespace` would make torch keep a dict for each operator
        known = _facts[id(function)] = Facts(function, name, bool(schema.is_mutable), written, out)
    return known


def written(known: Facts, args: tuple, kwargs: dict) -> list[torch.Tensor]:
    """Tensors that an operator changes in place."""
    places = known.written
    if len(places) == 1 and places[0][0] < len(args):
        only = args[places[0][0]]
        if type(only) in PLAIN:  # nearly always
            return [only]
    found: list[torch.Tensor] = []
    for index, name in places:
        found.extend(tensors(args[index] if index < len(args) else kwargs.get(name)))
    return found


def outputs(result: Any, changed: list[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors that an operator has made, those that it has `changed` in place included."""
    if not changed:
        if type(result) is torch.Tensor:  # nearly always
            return [result]
    elif len(changed) == 1 and changed[0] is result:
        return changed
    seen: dict[int, torch.Tensor] = {}
    for tensor in (*tensors(result), *changed):
        seen.setdefault(id(tensor), tensor)
    return list(seen.values())


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors inside tuples, lists and dicts, in order; of a DTensor what this rank holds."""
    found: list[torch.Tensor] = []
    _gather(value, found)
    return found


def _gather(value: Any, found: list[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        found.append(local(value))
    elif isinstance(value, (tuple, list)):
        for item in value:
            _gather(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            _gather(item, found)


def caller(depth: int) -> str:
    """Who made the call that is being dispatched, where gradients are off: 'us', 'optimizer' or 'them'.

    A wrapper of ours may stand between user and framework; our own calculations run without gradients. Between caller
    and mode, whose dispatching is `depth` calls away, stand some frames of the framework's machinery.
    """
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None:
        filename = frame.f_code.co_filename
        belongs = _belongs.get(filename)
        if belongs is None:
            belongs = _belongs[filename] = _owner(filename)
        if belongs != "machinery" and not (belongs == "us" and stands_in(frame.f_code)):
            return belongs
        frame = frame.f_back
    return "them"


def _owner(filename: str) -> str:
    for start, owner in ((_MACHINERY, "machinery"), (_OURS, "us"), (_OPTIMIZERS, "optimizer")):
        if filename.startswith(start):
            return owner
    return "them"


_belongs: dict[str, str] = {}  # files: whose code is in them


class Observer(Protocol):
    """Who looks at operators. `before` may keep what an in-place operator is about to overwrite.

    `lines`: whether each call is to know the line that made it. Finding it takes a walk over the stack; who needs it
    rarely says False and asks `Call.line` while the operator runs.
    """

    @property
    def lines(self) -> bool: ...
    def before(self, call: Call) -> Any: ...
    def after(self, call: Call, kept: Any) -> None: ...


def left_alone(function: Any) -> bool:
    """Mark a function so that torch's compiler lets it and what it calls run as Python; whether that can be done."""
    try:
        frames = torch._C._dynamo.eval_frame
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))
    except (AttributeError, TypeError):  # of another version
        return False
    return True


def recomputes(node: Any) -> bool:
    """Whether a node of the graph calculates activations again, with a graph of their own."""
    kind = type(node)
    known = _recomputing.get(kind)
    if known is None:
        known = _recomputing[kind] = node.name().startswith("CheckpointFunction")
    return known


_recomputing: dict[type, bool] = {}


class Operators(TorchDispatchMode):
    """Shows every operator to an observer. An error of the observer is reported and changes nothing."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch keeps its compiler away from a mode by two calls around each operator. A mark does it for nothing."""
        return not left_alone(cls.__dict__.get("__torch_dispatch__"))

    def __init__(self, observer: Observer, scope: Scope, report: Callable[[str, BaseException], None]) -> None:
        super().__init__()
        self.silent = False
        self._observer = observer
        self._scope = scope
        self._report = report
        self._order = 0
        self._last = _sequence()
        self._forward: dict[int, Call] = {}  # by sequence number of the autograd node

    def forget(self, but: Call | None = None) -> None:
        """A step is over: its graph is gone. `but` is the first call of the next one."""
        numbers = [number for number, call in self._forward.items() if call is but]
        self._forward.clear()
        if but is not None:
            self._forward.update(dict.fromkeys(numbers, but))
        self._order = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.silent:
            return function(*args, **kwargs)
        return self.shown(function, args, kwargs)

    def shown(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """Run an operator and show it."""
        call = kept = None
        try:
            call = self._call(function, args, kwargs)
            kept = self._observer.before(call)
        except Exception as error:
            self._report("operator", error)
            call = None
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            self._raised(call, kept, error)
            raise
        if call is not None:
            try:
                call.result = result
                self._observer.after(call, kept)
            except Exception as error:
                self._report("operator", error)
            call.result = None  # the calls of a step are kept for its backward, their results need not be
        return result

    def _raised(self, call: Call | None, kept: Any, error: BaseException) -> None:
        told = getattr(self._observer, "raised", None)
        if call is not None and told is not None:
            try:
                told(call, kept, error)
            except Exception as failed:
                self._report("operator", failed)

    def _call(self, function: Any, args: tuple, kwargs: dict) -> Call:
        site = user_site(4) if self._observer.lines else None
        scope = self._scope
        node = _node()
        called_by = "them"
        phase: Phase
        if torch.is_grad_enabled():
            phase = "forward" if node is None else "backward"
            if node is not None and recomputes(node):
                node, phase = None, "forward"
        else:
            called_by = caller(3)
            phase = "backward" if node is not None else "update" if called_by == "optimizer" else scope.phase
        known = _facts.get(id(function)) or facts(function)
        call = Call(self._order, known, function, args, kwargs, phase, scope.module, site, called_by == "us")
        self._order += 1
        if node is not None:
            call.node = node.name()
            number = node._sequence_nr()
            if number != _NO_SEQUENCE:
                call.forward = self._forward.get(number)
            if call.forward is not None:
                call.module = call.forward.module
        else:
            # The node of this operator exists already, so the next number is one past its own.
            following = _sequence()
            if following > self._last:
                self._forward[following - 1] = call
            self._last = following
        return call
