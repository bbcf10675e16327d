"""Lists and arrays that the user's own code puts into a random order before training, and which lines do.

Inputs and labels that are kept in two lists must be put into a new order together. A list that holds both of a sample
(pairs, dictionaries, objects) or numbers of samples may be shuffled by itself; one of values may not, unless another
one was shuffled by the same state of the generator. What is told here is where to look, and no proof.
"""

from __future__ import annotations

import os
import random
import sys
from typing import Any

import numpy as np
import torch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import is_user_file, user_source
from tensight.frameworks.torch.watching import Watching
from tensight.records import Source

_FEWEST = 16
_MOST = 32


class Reordered:
    """Watches `shuffle` and `sample` of Python's generators and NumPy's old one until something is trained."""

    def __init__(self, watching: Watching, patches: Patches) -> None:
        self.watching = watching
        self._known: dict[tuple[int, int], list[Source | None]] = {}  # state of the generator and size → lines
        self._over = False
        for name in ("shuffle", "sample"):
            patches.wrap(random, name, self._around_function)
            patches.wrap(random.Random, name, self._around_method)
        for name in ("shuffle", "permutation"):
            patches.wrap(np.random, name, self._around_function)

    def _around_function(self, original: Any) -> Any:
        # a program may have put a function of its own there, which has no generator that we know
        generator = getattr(original, "__self__", None)

        def reorder(*args, **kwargs):
            if not self._over and generator is not None:
                self._before(generator, args, kwargs, sys._getframe(1).f_code.co_filename)
            return original(*args, **kwargs)

        return reorder

    def _around_method(self, original: Any) -> Any:
        def reorder(generator, *args, **kwargs):
            if not self._over:
                self._before(generator, args, kwargs, sys._getframe(1).f_code.co_filename)
            return original(generator, *args, **kwargs)

        return reorder

    def _before(self, generator: Any, args: tuple, kwargs: dict, file: str) -> None:
        if args and self.watching.attached and is_user_file(file):
            self.watching.probe("new order", self._note)(generator, args, kwargs)

    def _note(self, generator: Any, args: tuple, kwargs: dict) -> None:
        values = args[0]
        size = args[1] if len(args) > 1 else kwargs.get("k")
        if not _of_values(values) or size not in (None, len(values)) or len(self._known) >= _MOST:
            return
        state = generator.getstate() if isinstance(generator, random.Random) else generator.get_state()[1:3]
        key = (hash(str(state)), len(values))
        self._known.setdefault(key, []).append(user_source())

    def root(self, root: torch.Tensor, scale: float) -> None:
        """A backward pass begins: what comes from here on is drawing batches."""
        if self._over:
            return
        self._over = True
        for (_, size), lines in self._known.items():
            if len(lines) == 1:
                self.watching.sink.event("permuted", "", {"size": size, "uses": 1, "values": True}, lines[0])
        self._known.clear()


def _of_values(values: Any) -> bool:
    """Whether a list or an array holds inputs or labels, and neither both of a sample nor numbers of samples.

    >>> _of_values(["a", "b"] * 8), _of_values([("a", 1)] * 16), _of_values(list(range(16))), _of_values([0, 1] * 8)
    (True, False, False, True)
    """
    if not isinstance(values, (list, np.ndarray)) or len(values) < _FEWEST:
        return False
    first = values[0]
    if isinstance(first, (int, np.integer)):
        return len({int(value) for value in values}) < len(values)
    if isinstance(first, list):
        return len(first) > 2
    return isinstance(first, (str, bytes, float, np.floating, np.ndarray, torch.Tensor, os.PathLike))
