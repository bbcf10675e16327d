"""A writer that opens the run when there is something to record.

A process may import a framework and never train: a launcher, a loader's worker. And which rank a process is may be
known only when it begins to train. So nothing is opened before a model or a step is there; what came before is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tensight.store import Writer

OPENS = ("network", "step", "end")


class _Late:
    def __init__(self, make: Callable[[], Writer]) -> None:
        self._make = make
        self._writer: Writer | None = None
        self._before: list[tuple[str, tuple[Any, ...]]] = []

    @property
    def lost(self) -> tuple[str, ...]:
        return () if self._writer is None else self._writer.lost

    @property
    def opened(self) -> bool:
        return self._writer is not None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if self._writer is None and name not in OPENS:
                self._before.append((name, args))
                return None
            return getattr(self._open(), name)(*args)

        return call

    def _open(self) -> Writer:
        if self._writer is None:
            self._writer = self._make()
            for name, args in self._before:
                getattr(self._writer, name)(*args)
            self._before.clear()
            # from now on no detour: these are found before __getattr__
            for name in ("network", "part", "tensor", "step", "findings", "tensors", "replay", "coverage"):
                setattr(self, name, getattr(self._writer, name))
        return self._writer


def late(make: Callable[[], Writer]) -> Writer:
    """A writer that `make` makes when it is first needed."""
    return cast("Writer", _Late(make))
