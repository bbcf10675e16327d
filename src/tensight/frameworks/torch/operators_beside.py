"""Operators beside compiled code: it runs as compiled while they are shown, and shows its own by probes.

An ordinary mode makes torch.compile give up and run the step as Python, whose last digits are others.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch

from tensight.frameworks.torch import operators
from tensight.frameworks.torch.operators import Call, Facts, Observer, Operators
from tensight.frameworks.torch.operators_scope import Scope
from tensight.frameworks.torch.watching import Watching
from tensight.records import Phase

_sequence = torch._C._autograd._get_sequence_nr
_node = torch._C._current_autograd_node
_is_grad_enabled = torch.is_grad_enabled


class Level(Observer, Protocol):
    """An observer that is content, most of the time, with being told of operators that have run."""

    @property
    def hears(self) -> bool:
        """Whether it looks at the operators that run now."""
        ...

    @property
    def wants_calls(self) -> bool:
        """Whether it wants each as a call, before it runs."""
        ...

    def ran(
        self, known: Facts, args: tuple, kwargs: dict, result: Any, phase: Phase, module: str, forward: Call | None
    ) -> int | None:
        """An operator of the training has run. Answers what the operator that goes back through it is to find."""
        ...


class BesideCompiled(Operators):
    """Shows operators that run as Python, and leaves compiling alone.

    An operator of an update is over in a few microseconds, so what is not needed of it is not worked out: a `Call` is
    made only of those that a backward pass comes back to.
    """

    def __init__(self, level: Level, scope: Scope, report: Any) -> None:
        super().__init__(level, scope, report)
        self._level = level

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if self._level.wants_calls and not self.silent:
            return self.shown(function, args, kwargs or {})
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        if not self.silent:
            try:
                self._ran(function, args, kwargs, result)
            except Exception as error:
                self._report("operator", error)
        return result

    def _ran(self, function: Any, args: tuple, kwargs: dict, result: Any) -> None:
        """The same as `_call` says of an operator, and no more than is needed."""
        node = _node()
        forward = None
        phase: Phase
        ours = False
        if _is_grad_enabled():
            phase = "forward" if node is None else "backward"
            if node is not None and operators.recomputes(node):
                node, phase = None, "forward"
        else:
            caller = operators.caller(2)
            phase = "backward" if node is not None else "update" if caller == "optimizer" else self._scope.phase
            ours = caller == "us"
        hears = not ours and self._level.hears
        known = operators.facts(function)
        if node is not None:
            if hears:
                forward = self._forward.get(node._sequence_nr())
                module = self._scope.module if forward is None else forward.module
                self._level.ran(known, args, kwargs, result, phase, module, forward)
            return
        module = self._scope.module
        first = self._level.ran(known, args, kwargs, result, phase, module, None) if hears else None
        following = _sequence()
        if following > self._last:
            call = Call(self._order, known, function, (), {}, phase, module, None, ours)
            call.kept = first
            self._forward[following - 1] = call
            self._order += 1
        self._last = following


class RunningScope(Scope):
    """Which module is running, as the adapter knows it: hooks on all modules would be compiled along with them."""

    def __init__(self, watching: Watching) -> None:
        super().__init__()
        self._scopes = watching.scopes

    @property
    def module(self) -> str:
        return self._scopes[-1].entry.path if self._scopes else ""
