"""Calls of modules: the outermost ones are steps of the network, those inside are looked at when the depth says so.

`nn.Module.__call__` is replaced once, for all modules, in place of hooks on each: a module carries nothing of ours, so
it is pickled, copied, scripted and compared as before, and code that behaves differently when hooks are there (the
fast path of transformer layers, torch.compile) does not notice.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import nn

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch.marks import mark
from tensight.frameworks.torch.nested import tensors
from tensight.frameworks.torch.networks import Entry, Networks
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import Scope, Watched, Watching
from tensight.frameworks.torch.wrappers import WRAPPERS, stripped
from tensight.records import Kind
from tensight.records.event import Value

MOST_CALLS = 32  # of one module between two backward passes: a cell that runs over a long sequence
MOST_FORWARDS = 8  # outermost calls that are looked at between two backward passes
MOST_HEARD = 1 << 16  # values of an answer that are read in each step
MOST_EVALUATIONS = 2  # and those without gradients
_GRADIENTS = frozenset({"output_gradient", "input_gradient"})
_ROWS = 6  # samples of a batch that are compared
_is_compiling = torch.compiler.is_compiling


class Calls:
    """Watches calls of modules."""

    def __init__(self, watching: Watching, networks: Networks, patches: Patches) -> None:
        self.watching = watching
        self.networks = networks
        self.before_forward: list = []  # called before an outermost call
        self.fed: Any = None  # told of the tensors an outermost call was given
        self.note: Any = None  # told of results inside an outermost call
        self.answered: Any = None  # told of what parts of a network have answered without a graph
        self.returned: Any = None  # told of what an outermost call that is looked at has returned
        self.look_at_start: Any = None  # looks at a model's parameters before its first call
        self.function_like: Any = None  # looks at results of activation modules that belong to no network
        self._stamp_of_calls = -1
        self._outermost_calls = [0, 0]  # without and with gradients, between two backward passes
        self._evaluation = 0
        self.looking = False  # the tensors of the running outermost call are looked at
        self.compiled_ended: Any = None  # told of a compiled model when it has returned
        self._said: set[str] = set()
        self._claim = threading.Lock()  # held while an outermost call begins
        patches.wrap(nn.Module, "__call__", self._around)

    def _around(self, original: Any) -> Any:
        watching = self.watching
        begin = watching.probe("forward", self._begin)
        end = watching.probe("forward end", self._end)
        enter = watching.probe("module call", self._enter)
        leave = watching.probe("module output", self._leave)
        entries = self.networks.entries.values
        scopes = watching.scopes
        claim = self._claim

        def __call__(module, *args, **kwargs):
            if not watching.active or _is_compiling():
                return original(module, *args, **kwargs)
            if watching.outermost:
                if not watching.observing:
                    return original(module, *args, **kwargs)
                entry = entries.get(id(module))
                scope = enter(module, entry)
                if scope is None:
                    result = original(module, *args, **kwargs)
                    if watching.observing:
                        leave(None, module, args, kwargs, result)
                    return result
                scopes.append(scope)
                try:
                    result = original(module, *args, **kwargs)
                finally:
                    del scopes[-1:]  # which never fails
                leave(scope, module, args, kwargs, result)
                return result
            if not claim.acquire(False):  # two threads that begin together would clear each other's scopes
                return original(module, *args, **kwargs)
            try:
                scope = None if watching.outermost else begin(module, args, kwargs)
                if scope is not None:
                    watching.outermost = True
                    watching.observing = self.looking
                    scopes.append(scope)
            finally:
                claim.release()
            if scope is None:
                result = original(module, *args, **kwargs)
                if watching.deep:
                    leave(None, module, args, kwargs, result)
                return result
            try:
                result = original(module, *args, **kwargs)
            except BaseException:
                watching.stamp += 1  # whatever comes next is not a second call beside this one
                raise
            finally:
                watching.outermost = watching.observing = False
                del scopes[:]
            end(scope, result)
            return result

        return __call__

    # outermost calls

    def _begin(self, module: nn.Module, args: tuple, kwargs: dict) -> Scope | None:
        watching = self.watching
        if watching.foreign():
            self._transformed(module)
            return None
        entry = self.networks.outermost(module, 4)
        if entry is None:
            return None
        grad = torch.is_grad_enabled()
        for tell in self.before_forward:
            tell()
        watching.phase = "forward" if grad else "evaluation"
        watching.network = entry.network
        sink = watching.sink
        # Who switches the model inside a wrapper leaves the wrapper as it was: what the model does is what counts.
        training = stripped(module).training
        sink.forward(entry.network, training)
        batch = _batch_size(args, kwargs)
        values: dict[str, Value] = {"training": training, "grad": grad, "batch": batch}
        if grad and any(isinstance(one, torch.Tensor) and one.requires_grad for one in args):
            values["input_requires_grad"] = True
        if grad and watching.deep and batch is not None and batch >= _ROWS:
            values |= _same_rows(args, kwargs)
        model = self.networks.models.get(entry.network)
        if not grad and model is not None:
            values |= mark(model, sink.step)
        sink.event("forward", entry.network, values, None if grad else user_source())
        if model is not None and not model.started and watching.gradients:
            self.look_at_start(model)
        watching.thread = threading.get_ident()
        if grad:
            self.networks.trained_here(entry)
        self.looking = watching.deep and self._may_observe(grad)
        scope = Scope(entry, self._number(entry), entry.ref() is not module)
        if self.looking:
            self._inputs(entry, args, kwargs, scope.call, "input", "input")
        return scope

    def _transformed(self, module: nn.Module) -> None:
        """Inside torch.func tensors are stand-ins without values: what is not seen there must be said."""
        if "torch.func" in self._said or torch._C._functorch.peek_interpreter_stack() is None:
            return
        self._said.add("torch.func")
        self.watching.sink.gap(
            f"{type(module).__name__} inside torch.func",
            "grad, vmap and functional_call with them hide the values",
            "train a few steps with a plain call of the module, loss.backward() and an optimizer to have it diagnosed",
        )

    def _may_observe(self, grad: bool) -> bool:
        """A whole evaluation between two updates would be one step of thousands of tensors: its beginning is enough."""
        if not self.watching.backwards and not grad:
            return True  # nothing is trained: each call is a step
        if self._stamp_of_calls != self.watching.stamp:
            self._stamp_of_calls, self._outermost_calls = self.watching.stamp, [0, 0]
        self._outermost_calls[grad] += 1
        return self._outermost_calls[grad] <= (MOST_FORWARDS if grad else MOST_EVALUATIONS)

    def _number(self, entry: Entry) -> int:
        if self.watching.phase == "evaluation":
            self._evaluation += 1
        return entry.begin(self._stamp())

    def _stamp(self) -> int:
        """Calls are numbered between backward passes; in an evaluation, inside each outermost call."""
        if self.watching.phase == "evaluation":
            return -2 - self._evaluation
        return self.watching.stamp

    def _end(self, scope: Scope, result: object) -> None:
        watching = self.watching
        try:
            if self.answered is not None and watching.gradients and scope.entry.path:
                self.answered(scope.entry, result)
            if self.looking and watching.deep:
                self._outputs(scope, result)
                if self.returned is not None and torch.is_grad_enabled():
                    self.returned(result)
            elif watching.active and watching.phase == "evaluation" and not watching.backwards:
                self._answer(scope, result)
            model = self.networks.models.get(scope.entry.network)
            if model is not None and model.incomplete:
                self.networks.describe(model)
            if model is not None and model.compiled and self.compiled_ended is not None:
                self.compiled_ended(model)
        finally:
            watching.sink.forwarded(scope.entry.network)

    def _answer(self, scope: Scope, result: object) -> None:
        """What a program that only infers says in a step that is hardly looked at: it has no loss to be heard of."""
        kind: Kind = "activation" if scope.entry.activation else "output"
        for slot, tensor in tensors(result, "output"):
            if tensor.numel() <= MOST_HEARD and tensor.is_floating_point():
                self.watching.look(self._tensor(scope.entry, scope.call, slot, tensor, kind), tensor, "evaluation")

    # calls inside

    def _enter(self, module: nn.Module, entry: Entry | None) -> Scope | None:
        watching = self.watching
        if threading.get_ident() != watching.thread:
            if entry is not None and not entry.path and torch.is_grad_enabled():
                self.networks.trained_here(entry)
            return None
        outermost = watching.scopes[0]
        if outermost.wrapped and entry is outermost.entry:
            outermost.wrapped = False
            return None  # the call that began with the wrapper
        if entry is None and type(module).__name__ in WRAPPERS:
            return None
        if entry is None:
            entry = self.networks.unknown(module, watching.scopes)
            if entry is None:
                return None
        call = entry.begin(self._stamp())
        return Scope(entry, call)

    def _leave(self, scope: Scope | None, module: nn.Module, args: tuple, kwargs: dict, result: object) -> None:
        if scope is None:
            if self.function_like is not None:
                self.function_like(module, result)
            return
        if scope.call >= MOST_CALLS:
            self._too_many(scope.entry)
            return
        if self.watching.inputs:
            self._inputs(scope.entry, args, kwargs, scope.call, "module_input", "input")
        if self.answered is not None and isinstance(result, torch.Tensor) and not result.requires_grad:
            self.answered(scope.entry, result)
        self._outputs(scope, result)

    def _too_many(self, entry: Entry) -> None:
        name = f"{entry.network}:{entry.path}"
        if name not in self._said:
            self._said.add(name)
            self.watching.sink.gap(
                f"calls of {entry.path or entry.network} after the first {MOST_CALLS}", "it is called very often"
            )

    # tensors

    def _inputs(self, entry: Entry, args: tuple, kwargs: dict, call: int, kind: Kind, place: str) -> None:
        watching = self.watching
        found = []
        for index, value in enumerate(args):
            if isinstance(value, torch.Tensor):
                found.append((f"{place}.{index}", value))
            else:
                found += tensors(value, f"{place}.{index}")
        for name, value in kwargs.items():
            if isinstance(value, torch.Tensor):
                found.append((f"{place}.{name}", value))
            else:
                found += tensors(value, f"{place}.{name}")
        if kind == "input" and self.fed is not None:
            self.fed([tensor for _, tensor in found])
        for slot, tensor in found:
            watched = self._tensor(entry, call, slot, tensor, kind)
            watching.look(watched, tensor, watching.phase)
            if kind == "module_input" and tensor.requires_grad and not tensor.is_leaf and torch.is_grad_enabled():
                self.hook(tensor, [self._tensor(entry, call, slot, tensor, "input_gradient")])

    def _outputs(self, scope: Scope, result: object) -> None:
        watching = self.watching
        entry, call = scope.entry, scope.call
        kind: Kind = "activation" if entry.activation else "output"
        for slot, tensor in tensors(result, "output"):
            watched = self._tensor(entry, call, slot, tensor, kind)
            sharing = watching.look_at_output(watched, tensor, watching.phase)
            if not tensor.requires_grad or tensor.is_leaf or watching.phase == "evaluation":
                continue
            if self.note is not None and entry.path:
                self.note(tensor, entry.path)
            if not watching.output_gradients:
                continue
            gradient = self._tensor(entry, call, slot, tensor, "output_gradient")
            if sharing is not None:
                sharing.append(gradient)
            else:
                sharing = [gradient]
                self.hook(tensor, sharing)
                watching.share_hook(sharing)

    def _tensor(self, entry: Entry, call: int, slot: str, tensor: torch.Tensor, kind: Kind) -> Watched:
        watching = self.watching
        phase = "backward" if kind in _GRADIENTS else watching.phase
        key = (kind, call, slot, phase)
        known = entry.tables.get(key)
        if known is not None and known.version == watching.needs_version:  # nearly always
            return known
        return watching.watched(
            entry.tables,
            key,
            tensor,
            kind,
            entry.path,
            slot,
            entry.network,
            call=call,
            type=entry.type,
            phase=phase,
        )

    def hook(self, tensor: torch.Tensor, sharing: list[Watched]) -> None:
        """A hook on the tensor, never a backward hook on the module: those fail when the result is changed in place."""
        watching = self.watching
        failed = watching.failed

        def gradient(grad: torch.Tensor) -> None:
            if watching.active:
                try:
                    for watched in sharing:
                        watching.look(watched, grad, "backward", watching.scale)
                except Exception as error:
                    failed("output gradient", error)

        tensor.register_hook(gradient)


def _same_rows(args: tuple, kwargs: dict) -> dict[str, Value]:
    """Whether the first samples of the batch are one and the same.

    >>> _same_rows((torch.ones(8, 3),), {}), _same_rows((torch.eye(8),), {})
    ({'same_rows': True}, {'same_rows': False})
    """
    first = next(value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))
    if type(first) not in PLAIN or not first.is_cpu or first.layout is not torch.strided or first[0].numel() < 2:
        return {}
    with torch.no_grad():
        return {"same_rows": all(torch.equal(first[0], one) for one in first[1:_ROWS])}


def _batch_size(args: tuple, kwargs: dict) -> int | None:
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            return value.shape[0] if value.dim() else 1
    return None
