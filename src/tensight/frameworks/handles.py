"""Handles of hooks that belong together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Both:
    """Hooks that are taken off together.

    >>> class Handle:
    ...     def remove(self) -> None:
    ...         print("off")
    >>> Both(Handle(), Handle()).remove()
    off
    off
    """

    def __init__(self, *handles: Any) -> None:
        self._handles = handles

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


def on_parameter(module: Any, slot: str, call: Callable[[Any], Any]) -> Any:
    """A parameter as its own module uses it. What stands in for it is an attribute of the module during the call."""

    def before(_: Any, inputs: Any) -> None:
        changed = call(getattr(module, slot))
        if changed is not None:
            module.__dict__[slot] = changed  # found before the parameter of that name

    def after(_: Any, inputs: Any, output: Any) -> None:
        module.__dict__.pop(slot, None)

    return Both(module.register_forward_pre_hook(before), module.register_forward_hook(after, always_call=True))
