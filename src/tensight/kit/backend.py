"""What the kit needs of a framework. One object per framework, found by what is handed in; none is imported first."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tensight.errors import UsageError

Array = np.ndarray[Any, Any]

# framework's import name → where its part of the kit is. One line adds a framework.
BACKENDS = {
    "torch": "tensight.frameworks.torch.kit.backend:BACKEND",
    "mindspore": "tensight.frameworks.mindspore.kit.backend:BACKEND",
}


class Removable(Protocol):
    """Something that can be taken off again."""

    def remove(self) -> None: ...


class Scale(Protocol):
    """A loss scale, as a trainer uses it: it tells `update` of every step."""

    scale: float
    drop_overflow_update: bool

    def update(self, overflow: bool) -> float: ...


class Trainer(Protocol):
    """Runs single steps of a network. A batch is a tuple: inputs, then the label when there is a loss function."""

    def step(self, batch: Any, scale: Scale | None = None) -> tuple[float, bool]:
        """Forward, backward, update; answers the loss and whether a gradient overflowed (looked for under a scale)."""
        ...

    def evaluate(self, batch: Any) -> tuple[float | None, Any, Any]:
        """Loss (None without a loss function), outputs and label, without gradients."""
        ...

    def predict(self, *inputs: Any) -> Any: ...
    def training(self) -> None:
        """Training mode, for the whole network."""
        ...

    def evaluating(self) -> Any:
        """A context manager: evaluation mode inside, the modes of before afterwards."""
        ...


class Backend(Protocol):
    """A framework, as the kit sees it."""

    name: str

    def owns(self, value: object) -> bool:
        """Whether this is a tensor, network or optimizer of this framework."""
        ...

    def is_tensor(self, value: object) -> bool: ...
    def array(self, tensor: Any) -> Array: ...
    def dtype(self, tensor: Any) -> str:
        """'float32', …"""
        ...

    def trainer(self, network: Any, loss_fn: Any, optimizer: Any) -> Trainer: ...
    def batches(self, dataset: Any) -> Iterator[Any]: ...
    def batch_count(self, dataset: Any) -> int | None: ...
    def state(self, network: Any) -> dict[str, Array]:
        """Copies of all parameters and buffers, by name."""
        ...

    def load_state(self, network: Any, values: Mapping[str, Array]) -> None: ...
    def remember(self, network: Any, optimizer: Any) -> Callable[[], None]:
        """What puts weights, buffers, gradients, the optimizer and the random numbers back as they are now."""
        ...

    def native(self, network: Any, optimizer: Any, info: Mapping[str, Any]) -> Callable[[Path], None]:
        """What writes a checkpoint in the framework's own format; copies are made here."""
        ...

    def bad_values(self, network: Any) -> list[tuple[str, str, int, int]]:
        """Parameters and gradients that are not finite: name, 'weight' or 'gradient', NaN, Inf."""
        ...

    def modules(self, network: Any) -> Iterable[tuple[str, str, Any]]:
        """Path, type and module, the root first."""
        ...

    def parameters(self, network: Any) -> Iterable[tuple[str, Any]]:
        """Name and parameter of those that are trained."""
        ...

    def rate(self, optimizer: Any) -> float | None: ...
    def set_rate(self, optimizer: Any, rate: float) -> None: ...
    def scale_of(self, scaler: Any) -> float | None:
        """The factor of a loss scaler of the framework's own; None when it is none."""
        ...

    def on_tensor_gradient(self, tensor: Any, call: Callable[[Any], Any]) -> Removable: ...
    def on_forward_pre(self, module: Any, call: Callable[[Any], Any]) -> Removable: ...
    def on_forward(self, module: Any, call: Callable[[Any, Any], Any]) -> Removable: ...
    def on_backward(self, module: Any, call: Callable[[Any, Any], Any]) -> Removable: ...
    def on_output_gradient(self, module: Any, call: Callable[[Any], Any]) -> Removable: ...
    def on_parameter(self, module: Any, slot: str, call: Callable[[Any], Any]) -> Removable:
        """Called with a module's own parameter whenever the module is; what it answers is used in that call instead."""
        ...

    def saved_tensors(self, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> Any:
        """A context manager."""
        ...

    def launch_blocking(self) -> str:
        """Run operators one after the other; answers what was done in one sentence."""
        ...

    def gather(self, value: Any) -> list[Any]:
        """The value of every rank, this one's included; alone when there is no process group."""
        ...

    def observe(self, run: Callable[[], Any], network: Any = None) -> Sequence[tuple[Any, ...]]:
        """Run something and list its operators, each as the values of a `tensight.kit.precision.Operator`."""
        ...


def backend(name: str) -> Backend:
    """A framework's part of the kit; the framework must be installed."""
    module, _, attribute = BACKENDS[name].partition(":")
    found: Backend = getattr(importlib.import_module(module), attribute)
    return found


def imported() -> list[Backend]:
    """Those of the frameworks that the program has imported."""
    return [backend(name) for name in BACKENDS if name in sys.modules]


def backend_of(*values: object) -> Backend:
    """The framework that the first value belongs to which belongs to any."""
    for one in imported():
        if any(one.owns(value) for value in values if value is not None):
            return one
    shown = ", ".join(type(value).__name__ for value in values if value is not None) or "nothing"
    raise UsageError(f"{shown} belongs to none of {', '.join(BACKENDS)}; give an nn.Module or a Cell")


def number(value: Any) -> float | None:
    """A loss as a number: a float, a tensor (its mean), or the first of a tuple of them; None when it is none.

    >>> number(2), number((0.5, "more")), number(None), number("text")
    (2.0, 0.5, None, None)
    """
    if isinstance(value, (tuple, list)):
        return number(value[0]) if value else None
    if isinstance(value, (bool, str)) or value is None:
        return None
    if isinstance(value, (int, float, np.ndarray, np.generic)):
        return float(np.mean(np.asarray(value)))
    for one in imported():
        if one.is_tensor(value):
            return float(np.mean(one.array(value)))
    return None


def array(value: Any) -> Array:
    """Anything that holds numbers, as NumPy.

    >>> array([1, 2]).tolist()
    [1, 2]
    """
    for one in imported():
        if one.is_tensor(value):
            return one.array(value)
    return np.asarray(value)
