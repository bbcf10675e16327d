"""Someone who wants tensors themselves, at the moment they are there, beside their statistics: a dump."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from tensight.records import Level, Source, Stats, TensorInfo

Array = np.ndarray[Any, Any]


class Given(Protocol):
    """A tensor that an operator was given."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def numpy(self) -> Array: ...
    def statistics(self) -> Stats: ...


class Made(NamedTuple):
    """A tensor that an operator made, as it was told to the sink."""

    info: TensorInfo
    stats: Stats
    numpy: Callable[[], Array]


class Ran(NamedTuple):
    """An operator that ran, or failed: then `error` says how and nothing was made."""

    module: str
    op: str
    phase: str
    number: int  # counts this operator in its module, phase and step
    given: Sequence[Given]
    made: Sequence[Made]
    source: Callable[[], Source | None]  # asked while the operator runs, as the stack
    stack: Callable[[], list[Source]]  # the user's own lines, innermost first
    error: str = ""
    began: int = 0  # microseconds since the epoch


class Tap(Protocol):
    """What a recorder asks at each step and tensor. Calls are guarded by the recorder."""

    level: Level  # of the steps it wants
    keeps: bool  # values are wanted, not only statistics
    operators: bool  # operators are wanted with what they were given
    outputs_only: bool  # of this step outputs of modules, and no statistics: how deep to look beside is the budget's

    def wants_step(self, step: int) -> bool: ...
    def wants(self, info: TensorInfo, stats: Stats) -> bool:
        """Whether the values of a tensor that was just looked at are wanted."""
        ...

    def take(self, info: TensorInfo, stats: Stats, value: Array) -> None: ...
    def ran(self, operator: Ran) -> None: ...
