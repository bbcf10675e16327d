"""Hooks by name: see or change gradients, inputs and outputs of what a selector names, on any framework.

    tensight.on_gradient("encoder.*", fn)            gradients of parameters
    tensight.on_gradient("output_gradient:head", fn) gradients of a module's output
    tensight.on_gradient(z, fn)                      the gradient of a tensor in the middle of a function
    tensight.on_forward("head", fn)                  fn(name, inputs, output)
    tensight.on_forward_pre("head", fn)              fn(name, inputs)
    tensight.on_backward("head", fn)                 fn(name, grad_input, grad_output)
    tensight.on_parameter("head.weight", fn)         fn(name, parameter), whenever the module uses it

What a function answers takes the place of what it was shown, None leaves it. All answer `Hooks`; `remove()` takes them
off. Without `network` the networks of the running session are meant, those found later too.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from tensight.errors import UsageError
from tensight.kit.backend import Backend, Removable, backend_of, imported
from tensight.kit.logs import get_logger
from tensight.records import TensorInfo
from tensight.session import auditing, hooking
from tensight.watchpoints.selectors import Selector

Function = Callable[..., Any]
_SHOWN = {
    **dict.fromkeys(("on_gradient", "on_backward"), "gradient"),
    "on_forward": "output",
    "on_forward_pre": "input",
    "on_parameter": "parameter",
}
Place = tuple[str, Callable[[], Removable]]  # name, and what sets a hook there


class Hooks:
    """Hooks that were set together. `names` says where, `calls` how often they were called."""

    def __init__(self, text: str, find: Callable[[Any], Iterator[Place]] | None = None) -> None:
        self.text = text
        self.names: list[str] = []
        self.calls = 0
        self._find = find
        self._handles: list[Removable] = []
        self._seen: list[Any] = []
        self._changed: set[str] = set()
        self.removed = False

    def __repr__(self) -> str:
        return f"Hooks({self.text!r}, {len(self.names)} set{', removed' if self.removed else ''})"

    def __enter__(self) -> Hooks:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Take all of them off; a second time does nothing."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._seen.clear()
        self.removed = True
        hooking.forget(self.set_on)

    def set_on(self, network: Any) -> int:
        """Set the hooks on a network, once; answers how many."""
        if self.removed or self._find is None or any(one is network for one in self._seen):
            return 0
        self._seen.append(network)
        before = len(self.names)
        for name, place in self._find(network):
            self._add(name, place())
        get_logger("kit.hooks").info("%s: %d hooks", self.text, len(self.names) - before)
        return len(self.names) - before

    def _add(self, name: str, handle: Removable) -> None:
        self.names.append(name)
        self._handles.append(handle)

    def _counted(self, function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any) -> Any:
            self.calls += 1
            return function(*args)

        return call

    def _noted(self, call: Function, name: str) -> Function:
        """The call, and a line in the run's audit log when its answer takes the place of what it was shown."""

        def told(*args: Any) -> Any:
            answer = call(*args)
            if answer is not None and name not in self._changed:  # once: a hook may answer in every step
                self._changed.add(name)
                auditing.note("python", f"{_SHOWN[self.text.partition(' ')[0]]} changed by a hook", name)
            return answer

        return told


def on_gradient(where: Any, function: Function, network: Any = None) -> Hooks:
    """Call `function(gradient)`, or `function(name, gradient)` when it takes two, on every gradient that is meant.

    >>> on_gradient("gradient:[", print)
    Traceback (most recent call last):
    tensight.errors.SpecError: 'gradient:[' is no selector: write 'kind:glob', e.g. 'gradient:encoder.*.weight'.
    """
    for backend in imported():
        if backend.is_tensor(where):
            hooks = Hooks("on_gradient of a tensor")
            call = hooks._noted(hooks._counted(_with_name(function, "tensor", 1)), "a tensor")
            hooks._add("tensor", backend.on_tensor_gradient(where, call))
            return hooks
    selector = _selector("on_gradient", where)

    def find(backend: Backend, hooks: Hooks, root: Any) -> Iterator[Place]:
        counted = hooks._counted(function)
        for name, parameter in backend.parameters(root):
            node, _, slot = name.rpartition(".")
            if selector.selects(TensorInfo(0, "gradient", node, slot), frozenset({"gradient"})):
                call = hooks._noted(_with_name(counted, name, 1), name)
                yield name, functools.partial(backend.on_tensor_gradient, parameter, call)
        for path, kind, module in backend.modules(root):
            if selector.selects(TensorInfo(0, "output_gradient", path, "output", type=kind), frozenset()):
                call = hooks._noted(_with_name(counted, path, 1), path)
                yield path, functools.partial(backend.on_output_gradient, module, call)

    return _set("on_gradient", where, find, network)


def on_forward(where: str, function: Function, network: Any = None) -> Hooks:
    """Call `function(name, inputs, output)` after modules that the selector names."""
    return _modules("on_forward", where, function, network, 2)


def on_forward_pre(where: str, function: Function, network: Any = None) -> Hooks:
    """Call `function(name, inputs)` before modules that the selector names."""
    return _modules("on_forward_pre", where, function, network, 1)


def on_backward(where: str, function: Function, network: Any = None) -> Hooks:
    """Call `function(name, grad_input, grad_output)` in the backward pass of modules that the selector names."""
    return _modules("on_backward", where, function, network, 2)


def on_parameter(where: str, function: Function, network: Any = None) -> Hooks:
    """Call `function(parameter)`, or `function(name, parameter)`, whenever the module that owns a parameter is called.

    What it answers is used in that call in the parameter's place, and gradients go through it to the parameter.
    """
    selector = _selector("on_parameter", where)

    def find(backend: Backend, hooks: Hooks, root: Any) -> Iterator[Place]:
        counted = hooks._counted(function)
        owners = {path: module for path, _, module in backend.modules(root)}
        for name, _ in backend.parameters(root):
            node, _, slot = name.rpartition(".")
            if node in owners and selector.selects(TensorInfo(0, "weight", node, slot), frozenset({"weight"})):
                call = hooks._noted(_with_name(counted, name, 1), name)
                yield name, functools.partial(backend.on_parameter, owners[node], slot, call)

    return _set("on_parameter", where, find, network)


@contextlib.contextmanager
def on_saved(pack: Function, unpack: Function | None = None) -> Iterator[None]:
    """A context: what the forward pass keeps for the backward goes through `pack`, and back through `unpack`.

    `pack` may answer None: then the tensor is kept as it is, and was only seen.

    >>> import torch
    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> with on_saved(lambda tensor: print(tensor.tolist())):
    ...     y = (x * x).sum()
    [3.0]
    [3.0]
    """

    def keep(tensor: Any) -> Any:
        packed = pack(tensor)
        return tensor if packed is None else packed

    with contextlib.ExitStack() as stack:
        for backend in imported():
            stack.enter_context(backend.saved_tensors(keep, unpack or (lambda value: value)))
        yield


def _modules(what: str, where: str, function: Function, network: Any, values: int) -> Hooks:
    selector = _selector(what, where)

    def find(backend: Backend, hooks: Hooks, root: Any) -> Iterator[Place]:
        counted = hooks._counted(function)
        for path, kind, module in backend.modules(root):
            if selector.selects(TensorInfo(0, "output", path, "output", type=kind), frozenset({"output"})):
                call = hooks._noted(_with_name(counted, path, values), path)
                yield path, functools.partial(getattr(backend, what), module, call)

    return _set(what, where, find, network)


def _set(what: str, where: str, find: Callable[[Backend, Hooks, Any], Iterator[Place]], network: Any) -> Hooks:
    hooks = Hooks(f"{what} {where}")
    hooks._find = lambda root: find(backend_of(root), hooks, root)
    if network is not None:
        if not hooks.set_on(network):
            raise UsageError(f"{what}: nothing in {type(network).__name__} is named by {where!r}")
    elif not imported():
        raise UsageError(f"{what}: import torch or mindspore first")
    elif not hooking.on_networks(hooks.set_on, hooks.text):
        raise UsageError(f"{what}: no session runs here, so say which network: tensight.{what}({where!r}, fn, network)")
    return hooks


def _selector(what: str, where: Any) -> Selector:
    if not isinstance(where, str):
        raise UsageError(f"{what}: {type(where).__name__} is neither a selector ('encoder.*') nor a tensor")
    return Selector.parse(where)


def _with_name(function: Function, name: str, values: int) -> Function:
    """The function as a hook calls it: the name goes first when it takes one value more."""
    try:
        taken = [
            one
            for one in inspect.signature(function).parameters.values()
            if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty
        ]
        named = len(taken) > values
    except (TypeError, ValueError):
        named = False
    return functools.partial(function, name) if named else function
