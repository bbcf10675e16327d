"""Generators that are seeded with the same number in every step: what is drawn after it is the same each time."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import torch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import is_user_file, user_source
from tensight.frameworks.torch.watching import Watching
from tensight.records import Source
from tensight.records.event import Value

MANY = 10  # steps in which the same line seeded, and something was drawn before the network was called
_MOST_LINES = 8
_is_compiling = torch.compiler.is_compiling


def _state(generator: str) -> int:
    if generator == "torch":
        return hash(torch.default_generator.get_state().numpy().tobytes())
    if generator == "numpy":
        state: Any = np.random.get_state()
        return hash((state[1].tobytes(), state[2]))
    return hash(random.getstate())


class Reseeded:
    """Watches the three seeds that programs set, until one line has done it for too long or nobody does."""

    def __init__(self, watching: Watching, patches: Patches) -> None:
        self.watching = watching
        self._pending: dict[str, tuple[Source | None, int, int]] = {}  # generator → line, seed, state behind it
        self._steps: dict[tuple[Source | None, str, int], list[int]] = {}
        self._over = False
        for owner, name, generator in (
            (torch, "manual_seed", "torch"),
            (np.random, "seed", "numpy"),
            (random, "seed", "random"),
        ):
            patches.wrap(owner, name, self._around(generator))

    def _around(self, generator: str) -> Any:
        watching = self.watching
        seeded = watching.probe("seed", self._seeded)

        def make(original: Any) -> Any:
            def seed(*args, **kwargs):
                result = original(*args, **kwargs)
                heard = not self._over and watching.attached and not _is_compiling()
                if heard and is_user_file(sys._getframe(1).f_code.co_filename):
                    seeded(generator, [*args, *kwargs.values()])
                return result

            return seed

        return make

    def _seeded(self, generator: str, given: list) -> None:
        if self.watching.backwards and len(given) == 1 and isinstance(given[0], int):
            self._pending[generator] = (user_source(), given[0], _state(generator))

    def called(self) -> None:
        """An outermost module is about to be called."""
        if not self._pending or self._over:
            return
        pending, self._pending = self._pending, {}
        if not torch.is_grad_enabled():
            return
        step = self.watching.sink.step
        for generator, (source, seed, state) in pending.items():
            if _state(generator) == state:
                continue  # nothing was drawn
            steps = self._steps.setdefault((source, generator, seed), [])
            if not steps or steps[-1] != step:
                steps.append(step)
            if len(steps) == MANY:
                values: dict[str, Value] = {
                    "generator": generator,
                    "seed": seed,
                    "since": steps[0],
                    "steps": step - steps[0] + 1,
                }
                self.watching.sink.event("reseeded", self.watching.network, values, source)
                self._over = True
        if len(self._steps) > _MOST_LINES:
            self._over = True
