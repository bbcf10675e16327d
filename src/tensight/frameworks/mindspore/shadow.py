"""The last step of a training, run again: its own call, on the inputs it had and the weights it began with.

Runs only in a copy of the process, so that whatever it does (prints, counters, running statistics, random numbers) is
gone with the copy. Compiled code is run as the Python it was written in: in PyNative mode, with jit lifted, where every
operator shows itself.
"""

from __future__ import annotations

import contextlib
import math
import sys
import weakref
from collections.abc import Callable
from typing import Any

import mindspore
import msgspec
import numpy as np
from mindspore import Parameter, Tensor, nn
from mindspore.context import _get_mode

from tensight.frameworks.adapter import Array
from tensight.frameworks.mindspore import operator_facts as facts
from tensight.frameworks.mindspore import orders
from tensight.frameworks.mindspore.first_bad import FirstBad
from tensight.frameworks.mindspore.networks import Networks, Weight
from tensight.frameworks.mindspore.operators import dispatching, flat
from tensight.frameworks.mindspore.values import Unjudged, number, view
from tensight.frameworks.mindspore.watching import Watching
from tensight.frameworks.rewinds import Again, Seen

Call = Callable[..., Any]
fork_utils: Any = getattr(mindspore._c_expression, "fork_utils", None)


class Unit:
    """One training call: what was called, and with what. Nothing of the user's is kept alive but the batch."""

    def __init__(self, kind: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.kind = kind  # 'gradient': of this function; 'call': the function steps by itself
        self.function = weakref.ref(function)
        self.args = args
        self.kwargs = kwargs
        self.owner: weakref.ref[Any] | None = None  # the object whose method it is: its first argument
        self.weights: list[weakref.ref[Parameter]] = []
        self.aux = False
        self.compiled = kind == "call" or _get_mode() == mindspore.GRAPH_MODE
        self.step = -1
        self.random: Array | None = None


class Shadow:
    """Implements `tensight.frameworks.rewinds.Shadow`."""

    def __init__(self, watching: Watching, networks: Networks, cells: Any, executor: Any) -> None:
        self._watching = watching
        self._networks = networks
        self._cells = cells
        self._executor = executor  # the class whose call runs what jit has compiled
        self._unit: Unit | None = None
        self._gradients: list[tuple[Tensor, Array | None]] | None = None  # in a copy: of the step
        self.copier: Callable[[Any, Callable[[], bytes]], bytes | None] | None = None  # runs something in a copy
        self.follow: Callable[[Any, Callable[[bytes], bytes]], Any] | None = None  # makes a copy that stays

    # in the training

    def gradient(self, function: Any, operation: Any, weights: Any, args: tuple[Any, ...], aux: bool) -> None:
        """A gradient is taken of a function of the user's."""
        if getattr(operation, "sens_param", False) and args:
            args = args[:-1]
        unit = self._begin(Unit("gradient", function, args, {}))
        unit.weights = [weakref.ref(weight) for weight in flat(tuple(weights)) if isinstance(weight, Parameter)]
        unit.aux = bool(aux)

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A compiled cell or function that may step by itself is called."""
        unit = self._begin(Unit("call", function, args, kwargs))
        if args and not isinstance(args[0], Tensor) and hasattr(args[0], "__weakref__"):
            unit.owner, unit.args = weakref.ref(args[0]), args[1:]

    def came(self, weights: Any, result: Any) -> None:
        """In a copy: gradients were computed."""
        if self._gradients is not None:
            held = [weight for weight in flat(tuple(weights)) if isinstance(weight, Parameter)]
            values = list(flat(result))[-len(held) :]
            self._gradients += [(weight, facts.array_of(value)) for weight, value in zip(held, values)]
            if self._watching.all:
                for weight, value in zip(held, values):
                    slot = self._networks.stranger(weight).gradient(self._watching, value)
                    self._watching.look(slot, value, "backward")

    def _begin(self, unit: Unit) -> Unit:
        unit.step = self._watching.sink.step
        if self._watching.some:
            unit.random = random_state()
        self._unit = unit
        return unit

    def hindrance(self, step: int) -> str:
        """Why this step cannot be run again; '' when it can."""
        lacking = self.lacks(step)
        if lacking:
            return lacking
        for weight in self._networks.weights():
            tensor = weight.ref()
            if tensor is not None and not facts.finite(weight.before if weight.before is not None else view(tensor)):
                return f"{weight.name} was not finite when the step began"
        return ""

    def lacks(self, step: int) -> str:
        """What is missing to run this step again."""
        unit = self._unit
        if unit is None or unit.step != step:
            return "what the step was given is not known: no gradient was taken through Python, and no cell stepped"
        if unit.function() is None:
            return "the function that the gradient was taken of is gone"
        if getattr(mindspore, "MsDispatchMode", None) is None:
            return "this MindSpore has no operator dispatch"
        if in_group():
            return "the process is part of a group, and a step that it ran alone would wait for the others"
        if fork_utils is None:
            return "this MindSpore cannot be copied while it runs"
        return ""

    def setting(self) -> tuple[Any, ...]:
        """What a copy that stays has from the moment it was made: it is stale where this is another."""
        unit, sink = self._unit, self._watching.sink
        if unit is None:
            return ()
        owner = id(unit.owner()) if unit.owner is not None else 0
        weights = tuple(
            (id(tensor), bool(getattr(tensor, "requires_grad", False)), tuple(tensor.shape), tensor.dtype)
            for weight in self._networks.weights()
            if (tensor := weight.ref()) is not None
        )
        roots = tuple(bool(getattr(network.root(), "training", False)) for network in self._networks.all)
        return (id(unit.function()), owner, sink.needs_version, sink.level, roots, weights)

    def order(self) -> bytes:
        """The last step for a copy that stays; raises `orders.Unsaid` where it cannot be written down."""
        unit = self._unit
        assert unit is not None
        held = [
            weight.before if weight.before is not None else self._now(weight) for weight in self._networks.weights()
        ]
        structure = bool(self._watching.sink.structure)
        return orders.written(orders.Order(unit.step, unit.args, unit.kwargs, held, unit.random, structure))

    def _now(self, weight: Weight) -> Array | None:
        tensor = weight.ref()
        try:
            return None if tensor is None else view(tensor)
        except Unjudged:
            return None

    def before_copy(self) -> None:
        """MindSpore has threads of its own: it must be told of a copy, or the copy waits for them for ever."""
        fork_utils.prepare_before_fork()

    def after_copy(self, *, copy: bool) -> None:
        if copy:
            fork_utils.child_at_fork()
        else:
            fork_utils.parent_at_fork()

    # in a copy of the process

    def run_again(self, step: int) -> Again:
        """The step under full observation. Only in a copy: it changes weights, and the mode of the process."""
        unit = self._unit
        assert unit is not None
        self._become_copy(_Silence(self._watching.sink))
        self._put_weights_back()
        self._put_random_back()
        trouble: list[str] = []
        given = flat((unit.args, tuple(unit.kwargs.values())))
        first = FirstBad(self._name_of, frozenset(one.data_ptr() for one in given if isinstance(one, Tensor)))
        # operators of the backward pass are seen in part only: gradients of results tell of it instead
        mode = dispatching(first, self._cells.where, _reporting(trouble), deep=lambda: not self._watching.backward)
        loss = None
        gradients: list[tuple[Tensor, Array | None]] = []
        self._gradients = gradients
        with mode:
            try:
                loss = self._run(unit)
            except Exception as error:
                trouble.append(f"{type(error).__name__}: {error}".splitlines()[0])
        seen = first.found(loss, gradients)
        value = None if loss is None else number(loss)
        if seen is not None:
            seen = self._told(seen, step, value, gradients)
        elif value is None or math.isfinite(value):
            trouble.append("run again in PyNative mode, all its values were finite")
        return Again(seen, value, "; ".join(trouble[:2]), exact=not unit.compiled)

    def run_observed(self, sink: Any) -> str:
        """In a copy: the step again, told to another sink; answers what went wrong."""
        unit = self._unit
        assert unit is not None
        self._become_copy(sink)
        self._put_weights_back()
        self._put_random_back()
        self._gradients = []
        try:
            self._run(unit)
        except Exception as error:
            return f"{type(error).__name__}: {error}".splitlines()[0]
        return ""

    def _become_copy(self, sink: Any) -> None:
        """Nobody hears this process but `sink`; compiled code runs as Python."""
        self._watching.sink = sink
        self._networks.forget_slots()
        self._watching.busy = self._watching.backward = False
        self._watching.turn += 1  # calls of cells are counted from the beginning
        self._cells.adopt()
        if _get_mode() == mindspore.GRAPH_MODE:
            mindspore.set_context(mode=mindspore.PYNATIVE_MODE)

        def plainly(executor: Any, *args: Any, **kwargs: Any) -> Any:
            return executor.fn(*args, **kwargs)

        self._executor.__call__ = plainly

    def obey(self, data: bytes) -> tuple[int, bool]:
        """In a copy that stays: be as the training was when the step of this order began.

        Answers which step that is, and whether its structure is asked for.
        """
        unit, order = self._unit, orders.read(data)
        assert unit is not None
        unit.step, unit.args, unit.kwargs, unit.random = order.step, order.args, order.kwargs, order.random
        for weight, value in zip(self._networks.weights(), order.weights):
            weight.before = value
        return order.step, order.structure

    def _put_random_back(self) -> None:
        unit = self._unit
        if unit is not None and unit.random is not None:
            with contextlib.suppress(RuntimeError, ValueError, TypeError):
                mindspore.set_rng_state(Tensor(unit.random))

    def _put_weights_back(self) -> None:
        for weight in self._networks.weights():
            tensor = weight.ref()
            if isinstance(tensor, Parameter) and weight.before is not None:
                tensor.set_data(Tensor(np.ascontiguousarray(weight.before), dtype=tensor.dtype))

    def _run(self, unit: Unit) -> Tensor | None:
        """The step's loss; its gradients come by `came`."""
        function: Any = unit.function()
        parameters = [weight for ref in unit.weights if (weight := ref()) is not None]
        if unit.kind == "call":
            inner = closure_of(function) or training_parts(function)
            if inner is None:
                own = () if unit.owner is None else (unit.owner(),)
                return first_tensor(function(*own, *unit.args, **unit.kwargs))  # it takes its gradients itself
            function, parameters, unit.aux = inner
        gradient = mindspore.value_and_grad(function, None, mindspore.ParameterTuple(parameters), has_aux=unit.aux)
        result, _ = gradient(*unit.args, **unit.kwargs)
        return first_tensor(result)

    def _name_of(self, tensor: Tensor) -> str:
        known = self._networks.weight(tensor)
        return known.name if known is not None else ""

    def _told(self, seen: Seen, step: int, loss: float | None, gradients: list[tuple[Tensor, Array | None]]) -> Seen:
        then = [] if loss is None or math.isfinite(loss) else ["the loss"]
        bad = [self._name_of(parameter) for parameter, value in gradients if not facts.finite(value)]
        if bad:
            then.append(f"gradient of {bad[0]}")
            if len(bad) > 1:
                then.append(f"{len(bad) - 1} more gradient{'s' if len(bad) > 2 else ''}")
        return Seen(msgspec.structs.replace(seen.replay, step=step, then=tuple(then)), seen.values)


class _Silence:
    """A sink that takes every call and keeps the depth at which nothing is looked at."""

    def __init__(self, before: Any) -> None:
        self.step = before.step
        self.depth = -1
        self.level = "watch"
        self.keep_tensors = False
        self.needs_version = 0
        self.structure = False
        self.tap = None

    def __getattr__(self, name: str) -> Call:
        return _nothing


def _nothing(*args: object, **kwargs: object) -> int:
    return 0


def _reporting(trouble: list[str]) -> Call:
    def probe(where: str, call: Call, *args: Any) -> Any:
        try:
            return call(*args)
        except Exception as error:
            trouble.append(f"{where}: {type(error).__name__}: {error}".splitlines()[0])
            return None

    return probe


def in_group() -> bool:
    """Whether this process trains together with others."""
    communication = sys.modules.get("mindspore.communication._comm_helper")
    return bool(getattr(getattr(communication, "GlobalComm", None), "INITED", False))


def random_state() -> Array | None:
    """MindSpore's own generator; asking for it draws nothing."""
    try:
        return np.array(view(mindspore.get_rng_state()))
    except (Unjudged, RuntimeError):
        return None


def closure_of(function: Any) -> tuple[Any, list[Parameter], bool] | None:
    """What MindSpore's gradient function of graph mode was made of: the user's function, the weights, more results."""
    if not getattr(function, "__qualname__", "").startswith(("_Grad.", "GradOperation.")):
        return None
    held = {name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ())}
    if "fn" not in held or not held.get("weights"):
        return None
    weights = [weight for weight in flat(tuple(held["weights"])) if isinstance(weight, Parameter)]
    return held["fn"], weights, bool(getattr(held.get("grad_"), "has_aux", False))


def training_parts(cell: Any) -> tuple[Any, list[Parameter], bool] | None:
    """The network with its loss, and the weights, of one of MindSpore's training cells."""
    if not isinstance(cell, nn.Cell):
        return None
    network, optimizer = cell._cells.get("network"), cell._cells.get("optimizer")
    if network is None or optimizer is None:
        return None
    return network, list(optimizer.parameters), False


def first_tensor(value: Any) -> Tensor | None:
    return next((item for item in flat(value) if isinstance(item, Tensor)), None)
