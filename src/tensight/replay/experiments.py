"""Experiments in a copy of the training: one thing is changed and the result reported, never in the training itself.

Two kinds. The guilty operator is called again with its real inputs, in a wider format or kept away from the values it
cannot bear. And a copy of the copy runs the same steps with a tenth of the learning rate, to tell a step size that is
too large from an operator that fails at any.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

import msgspec

from tensight.frameworks.rewinds import Rewinds, Seen
from tensight.replay import copying
from tensight.replay.copying import Copy, Woken, make_copy

SECONDS = 5.0  # for all experiments on an operator
PATIENCE = 10.0  # for the steps at another learning rate, after the look is done
FACTOR = 0.1
PREFIX = "tried "

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[float]).decode


def on_operator(rewinds: Rewinds, seen: Seen, now: Callable[[], float] = time.monotonic) -> dict[str, str]:
    """What changing the operator's inputs or format does: 'tried in float64' → 'finite' or 'not finite'."""
    until = now() + SECONDS
    found: dict[str, str] = {}
    for name, trial in rewinds.trials(seen).items():
        if now() > until:
            break
        try:
            found[f"{PREFIX}{name}"] = trial()
        except Exception:
            continue  # an operator may not know this format; that tells nothing
    return found


class LowerRate:
    """The same steps with a tenth of the learning rate, in a process of their own."""

    def __init__(self, step: int, bad: int) -> None:
        self._step = step
        self._bad = bad
        self._copy: Copy | None = None
        self._woken: Woken | None = None
        self._losses: list[float] = []

    @property
    def running(self) -> bool:
        """Whether this process is the one that tries."""
        return self._woken is not None

    def begin(self, rewinds: Rewinds) -> None:
        """In a copy, before its first step: a copy of the copy is made, and the two go separate ways."""
        if self._bad <= self._step or copying.hindrance(rewinds.idle_threads()):
            return  # the very next step is bad already: its loss comes before any update
        made = make_copy(self._step, b"run")
        if isinstance(made, Woken):
            self._woken = made
            rewinds.scale_rates(FACTOR)
        else:
            self._copy = made

    def ended(self, step: int, losses: Sequence[float]) -> None:
        """In the process that tries: a step has ended."""
        self._losses += losses[:1]
        if step >= self._bad or not all(math.isfinite(value) for value in losses):
            self.leave()

    def leave(self) -> NoReturn:
        assert self._woken is not None
        self._woken.leave(_encode(self._losses))

    def result(self) -> dict[str, str]:
        """In the copy: what came of it, waited for a little."""
        copy, self._copy = self._copy, None
        if copy is None:
            return {}
        answer = copy.wait(PATIENCE)
        copy.end()
        losses = _decode(answer) if answer else []
        steps = self._bad - self._step + 1
        if not losses or (len(losses) < steps and all(math.isfinite(value) for value in losses)):
            return {}
        if all(math.isfinite(value) for value in losses):
            return {f"{PREFIX}a tenth of the learning rate since step {self._step}": f"loss {losses[-1]:.4g}, finite"}
        return {f"{PREFIX}a tenth of the learning rate since step {self._step}": "not finite either"}
