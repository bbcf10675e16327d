"""Activation functions that are called as functions, and dropout that stays random in evaluation.

Functions are replaced where every way of calling them comes by: `F.relu` calls `torch.relu`, which is replaced, so
`F.relu` itself stays as it is and comparisons with it (as in `nn.TransformerEncoderLayer`) hold.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch.calls import Calls
from tensight.frameworks.torch.describe import is_activation
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import Watched, Watching
from tensight.records import Source

_is_compiling = torch.compiler.is_compiling

# where it is found → names there; a name maps to what it is called in records
_TENSOR_METHODS = ("relu", "relu_", "sigmoid", "sigmoid_", "tanh", "tanh_", "softmax", "log_softmax")
_TORCH_FUNCTIONS = (
    *("relu", "relu_", "sigmoid", "sigmoid_", "tanh", "tanh_", "softmax", "log_softmax", "selu", "selu_", "celu"),
    *("celu_", "rrelu", "rrelu_", "prelu"),
)
_NATIVE_FUNCTIONS = (
    *("leaky_relu", "leaky_relu_", "elu", "elu_", "silu", "silu_", "mish", "mish_", "hardtanh", "hardtanh_"),
    *("hardswish", "hardswish_", "hardsigmoid", "hardsigmoid_", "relu6", "relu6_", "glu"),
)
_FUNCTIONAL = ("gelu", "softplus", "softshrink", "logsigmoid", "hardshrink")
_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
_DROPOUT_FILE = nn.Dropout.forward.__code__.co_filename
_GRAPH = "<eval_with_key>"  # the file that code of a captured graph names
_MOST_REMEMBERED = 8


class Made(NamedTuple):
    """A tensor that an activation made lately."""

    ref: weakref.ref
    function: str
    dim: int | None
    source: Source | None
    module: str


class Activations:
    """Watches activation functions and functional dropout."""

    def __init__(self, watching: Watching, calls: Calls, patches: Patches) -> None:
        self.watching = watching
        self.calls = calls
        self.lately: list[Made] = []
        self.made: Any = None  # told of each softmax
        self._outside: dict[object, Watched] = {}
        self._stamp = -1
        self._counts: dict[str, int] = {}
        calls.function_like = self._module
        for owner, names in (
            (torch.Tensor, _TENSOR_METHODS),
            (torch, _TORCH_FUNCTIONS),
            (torch._C._nn, _NATIVE_FUNCTIONS),
            (F, _FUNCTIONAL),
        ):
            for name in names:
                patches.wrap(owner, name, functools.partial(self._around, function=name.rstrip("_")))
        for name in _DROPOUTS:
            patches.wrap(F, name, self._around_dropout)

    def _around(self, original: Any, function: str) -> Any:
        watching = self.watching
        returned = watching.probe("activation function", self._returned)

        def activation(*args, **kwargs):
            result = original(*args, **kwargs)
            if not _is_compiling() and watching.deep and (watching.observing or not watching.outermost):
                returned(function, result, args, kwargs)
            return result

        return activation

    def _returned(self, function: str, result: Any, args: tuple, kwargs: dict) -> None:
        watching = self.watching
        if type(result) not in PLAIN or watching.foreign():
            return
        dim = kwargs.get("dim", args[1] if len(args) > 1 and isinstance(args[1], int) else None)
        scopes = watching.scopes
        if scopes and scopes[-1].entry.activation:
            self._remember(result, function, dim, None, scopes[-1].entry.path)
            return  # the module is looked at as a whole
        if any(made.ref() is result for made in self.lately):
            return  # torch.softmax calls Tensor.softmax: once is enough
        source = user_source()
        self._look(function, result, source, dim)

    def _module(self, module: nn.Module, result: object) -> None:
        """An activation module that belongs to no network, `nn.ReLU()(x)`, is a function too."""
        if type(result) not in PLAIN or not is_activation(module) or self.watching.foreign():
            return
        if not any(made.ref() is result for made in self.lately):  # else its function was seen
            dim = getattr(module, "dim", None)
            self._look(type(module).__name__.lower(), result, user_source(), dim)

    def _look(self, function: str, result: torch.Tensor, source: Source | None, dim: int | None) -> None:
        watching = self.watching
        scopes = watching.scopes
        if scopes:
            scope = scopes[-1]
            entry, number = scope.entry, scope.count(function)
            table, node, network, call = entry.tables, entry.path, entry.network, scope.call
            phase = watching.phase
        else:
            if self._stamp != watching.stamp:
                self._stamp, self._counts = watching.stamp, {}
            number = self._counts.get(function, 0)
            self._counts[function] = number + 1
            table, node, network, call = self._outside, "", watching.network, 0
            phase = "forward" if torch.is_grad_enabled() else "evaluation"
        if number >= 32 or (phase == "evaluation" and not scopes and number >= 2):
            return
        slot = f"{function}.{number}"
        self._remember(result, function, dim, source, node)
        watched = watching.watched(
            table,
            ("activation", call, slot, phase),
            result,
            "activation",
            node,
            slot,
            network,
            call=call,
            type=function,
            op=function,
            phase=phase,
            source=source,
        )
        watching.look_at_output(watched, result, phase)

    def _remember(
        self, result: torch.Tensor, function: str, dim: int | None, source: Source | None, module: str
    ) -> None:
        self.lately.append(Made(weakref.ref(result), function, dim, source, module))
        if self.made is not None and function == "softmax":
            self.made(result, function, dim, source)
        if len(self.lately) > _MOST_REMEMBERED:
            del self.lately[0]

    # dropout

    def _around_dropout(self, original: Any) -> Any:
        watching = self.watching
        happened = watching.probe("dropout", self._dropout)

        def dropout(*args, **kwargs):
            if not _is_compiling() and watching.active and (len(args) < 3 or args[2]) and kwargs.get("training", True):
                happened(args, kwargs)
            return original(*args, **kwargs)

        return dropout

    def _dropout(self, args: tuple, kwargs: dict) -> None:
        p = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
        caller = sys._getframe(3).f_code.co_filename
        if caller == _DROPOUT_FILE or caller.startswith(_GRAPH):
            return  # nn.Dropout was switched to training on purpose; a graph was told of when it was captured
        self.drops(p, "dropout")

    def drops(self, p: float, function: str) -> None:
        """Random numbers are about to be drawn: say so when the module around is in evaluation mode."""
        watching = self.watching
        if not p or watching.foreign():
            return
        entry = watching.scopes[-1].entry if watching.scopes else None
        module = None if entry is None else entry.ref()
        if entry is None or module is None or module.training:
            return
        watching.sink.event(
            "dropout",
            entry.network,
            {"p": float(p), "training": True, "module": entry.path, "module_training": False, "function": function},
            user_source(),
        )
