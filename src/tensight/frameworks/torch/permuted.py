"""Permutations of the data before training: which lines use them.

Inputs and labels that are put into a new order must be so by the same permutation. Until the first backward pass the
uses of each permutation that the user's own code draws are noted; one that is used once has moved one of the two alone.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

import torch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import is_user_file, user_source
from tensight.frameworks.torch.watching import Watching
from tensight.records import Source

_FEWEST = 16
_MOST = 32


class Permutation:
    """One that was drawn, and the lines that index by it."""

    def __init__(self, drawn: torch.Tensor, source: Source | None) -> None:
        self.ref = weakref.ref(drawn)
        self.size = drawn.numel()
        self.source = source
        self.uses: list[Source | None] = []


class Permuted:
    """Watches `torch.randperm`, and indexing while permutations are known and nothing was trained."""

    def __init__(self, watching: Watching, patches: Patches) -> None:
        self.watching = watching
        self._patches = patches
        self._known: dict[int, Permutation] = {}
        self._index: Any = None  # ours, while it is in place
        self._over = False
        patches.wrap(torch, "randperm", self._around)

    def _around(self, original: Any) -> Any:
        watching = self.watching
        drawn = watching.probe("permutation", self._drawn)

        def randperm(*args, **kwargs):
            result = original(*args, **kwargs)
            if not self._over and watching.attached and is_user_file(sys._getframe(1).f_code.co_filename):
                drawn(result)
            return result

        return randperm

    def _drawn(self, result: torch.Tensor) -> None:
        if result.numel() < _FEWEST or len(self._known) >= _MOST:
            return
        self._known[id(result)] = Permutation(result, user_source())
        if self._index is None:
            self._follow_indexing()

    def _follow_indexing(self) -> None:
        original = torch.Tensor.__getitem__
        used = self.watching.probe("permutation", self._used)
        known = self._known

        def __getitem__(tensor, index):
            if id(index) in known:
                used(tensor, index)
            return original(tensor, index)

        self._index = __getitem__
        self._patches.set(torch.Tensor, "__getitem__", __getitem__)

    def _used(self, tensor: torch.Tensor, index: Any) -> None:
        one = self._known[id(index)]
        if one.ref() is index and tensor.dim() and tensor.shape[0] == one.size:
            one.uses.append(user_source())

    def root(self, root: torch.Tensor, scale: float) -> None:
        """A backward pass begins: what comes from here on is drawing batches."""
        if self._over:
            return
        self._over = True
        if self._index is not None and vars(torch.Tensor).get("__getitem__") is self._index:
            del torch.Tensor.__getitem__
        for one in self._known.values():
            if len(one.uses) == 1:
                self.watching.sink.event("permuted", "", {"size": one.size, "uses": 1}, one.uses[0])
        self._known.clear()
