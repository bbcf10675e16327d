"""Handles of hooks that belong together."""

from __future__ import annotations

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
