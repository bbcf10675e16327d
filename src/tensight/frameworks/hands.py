"""How to take hold of a model outside a training: its modules, weights and single calls of them.

A recorded reference is replayed with it. Unlike an adapter, hands are used when the user asks for them, so they may
call modules; what a call changes (running statistics) is put back.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from tensight.records import Module

Array = np.ndarray[Any, Any]
Heard = Callable[[str, Any, Sequence[Any], Mapping[str, Any], Any], None]  # path, module, arguments, keywords, result

# framework's import name → where its hands are. One line adds a framework.
HANDS = {
    "torch": "tensight.frameworks.torch.hands:TorchHands",
    "mindspore": "tensight.frameworks.mindspore.hands:MindSporeHands",
}


class Hands(Protocol):
    """What a reference needs of a framework."""

    name: str

    def version(self) -> str: ...
    def owns(self, model: object) -> bool: ...
    def is_tensor(self, value: object) -> bool: ...
    def numpy(self, tensor: Any) -> Array:
        """A copy as NumPy; dtypes NumPy does not have come as float32."""
        ...

    def dtype(self, tensor: Any) -> str: ...
    def tensor(self, array: Array, dtype: str, model: Any) -> Any:
        """A tensor of these values where the model lives."""
        ...

    def modules(self, model: Any) -> list[tuple[str, Any]]:
        """Every module with its path, wrappers left out; the root first."""
        ...

    def record(self, path: str, module: Any) -> Module: ...
    def weights(self, model: Any) -> dict[str, Any]:
        """Parameters and buffers as tensors, by attribute path."""
        ...

    def put(self, tensor: Any, array: Array) -> None:
        """Overwrite a parameter or buffer."""
        ...

    def training(self, model: Any) -> bool: ...
    def compiled(self, model: Any) -> bool: ...
    def as_compiled(self, model: Any, part: Any) -> Any:
        """A module of a compiled model, compiled in the same way."""
        ...

    def call(self, module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Call a module without gradients; buffers are as before afterwards."""
        ...

    def gradients(self, model: Any, work: Callable[[], Any]) -> tuple[float, dict[str, Any]]:
        """The loss that `work` returns and the gradients of the parameters; gradients the model has stay."""
        ...

    def hearing(self, model: Any, heard: Heard) -> AbstractContextManager[None]:
        """Tell every call of every module, innermost first."""
        ...

    def double(self, model: Any) -> Any | None:
        """A copy that computes in float64; None where that cannot be had."""
        ...

    def copy(self, model: Any) -> Any | None:
        """A copy; None where that cannot be had."""
        ...

    def random_states(self) -> dict[str, Array]: ...
    def set_random_states(self, states: Mapping[str, Array]) -> None: ...


def hands_of(model: object) -> Hands | None:
    """The hands for a model, by the frameworks the program has imported; None when none knows it."""
    for name, place in HANDS.items():
        if name in sys.modules:
            module, _, attribute = place.partition(":")
            hands: Hands = getattr(importlib.import_module(module), attribute)()
            if hands.owns(model):
                return hands
    return None


def flat(hands: Hands, value: Any) -> list[Any]:
    """Every tensor in a result, in order."""
    if hands.is_tensor(value):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for one in value for tensor in flat(hands, one)]
    return []
