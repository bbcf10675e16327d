"""Seconds of each cell, in the located steps of PyNative mode."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import mindspore

from tensight.frameworks.timing import now
from tensight.records.timing import ModuleTime


class CellTimes:
    """Times the cells of the networks that are called, while it is on.

    Operators are launched ahead of their execution: what is under way is waited for around each cell, so that a cell
    answers for its own operators. That slows these steps, whose time counts for nothing.
    """

    def __init__(self) -> None:
        self.on = False
        self._paths: dict[int, tuple[str, str]] = {}
        self._inner: list[float] = []  # seconds of cells inside each that runs
        self._rows: dict[tuple[str, str], list[float]] = {}

    def met(self, network: Any) -> None:
        """A network is called from outside: its cells are known by their paths."""
        if id(network) in self._paths:
            return
        with contextlib.suppress(Exception):
            for path, cell in network.cells_and_names():
                self._paths.setdefault(id(cell), (path, type(cell).__name__))

    def call(self, original: Callable[..., Any], cell: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        known = self._paths.get(id(cell))
        if known is None:
            return original(cell, *args, **kwargs)
        _wait()
        self._inner.append(0.0)
        began = now()
        try:
            return original(cell, *args, **kwargs)
        finally:
            _wait()
            took = now() - began
            inner = self._inner.pop()
            if self._inner:
                self._inner[-1] += took
            row = self._rows.setdefault(known, [0, 0.0, 0.0])
            row[0] += 1
            row[1] += took
            row[2] += max(0.0, took - inner)

    def records(self) -> tuple[ModuleTime, ...]:
        return tuple(
            ModuleTime(path, kind, int(calls), forward=whole, own_forward=own)
            for (path, kind), (calls, whole, own) in self._rows.items()
        )


def _wait() -> None:
    with contextlib.suppress(Exception):
        mindspore.runtime.synchronize()
