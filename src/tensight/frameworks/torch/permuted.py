"""Permutations of the data before training: which lines use them.

Inputs and labels that are put into a new order must be so by the same permutation. Until the first backward pass the
uses of each permutation that the user's own code draws are noted; one that is used once has moved one of the two alone.
An order that sorts (by length, say) may have moved other things besides; what counts there is whether the network was
fed a sorted batch and the loss a target that was not.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch

from tensight.frameworks.patches import Patches
from tensight.frameworks.source import is_user_file, user_source
from tensight.frameworks.torch.watching import Watching
from tensight.records import Source

_FEWEST = 16
_MOST = 32
_is_compiling = torch.compiler.is_compiling


class Permutation:
    """One that was drawn, and the lines that index by it."""

    def __init__(self, drawn: torch.Tensor, source: Source | None, *, sorts: bool) -> None:
        self.ref = weakref.ref(drawn)
        self.size = drawn.numel()
        self.source = source
        self.sorts = sorts
        self.uses: list[Source | None] = []
        self.moved: list[weakref.ref] = []  # what came of each use
        self.answers = False  # something that the network made was moved


class Permuted:
    """Watches `torch.randperm` and sorting, and indexing while permutations are known and nothing was trained.

    `pair` answers what the network was fed last, and the target of the last loss.
    """

    def __init__(
        self,
        watching: Watching,
        patches: Patches,
        pair: Callable[[], tuple[list[torch.Tensor], torch.Tensor | None]] = lambda: ([], None),
    ) -> None:
        self.watching = watching
        self._pair = pair
        self._patches = patches
        self._known: dict[int, Permutation] = {}
        self._index: Any = None  # ours, while it is in place
        self._over = False
        patches.wrap(torch, "randperm", self._around)
        for owner in (torch, torch.Tensor):
            for name in ("argsort", "sort"):
                patches.wrap(owner, name, self._around_sort)

    def _around_sort(self, original: Any) -> Any:
        watching = self.watching
        drawn = watching.probe("permutation", self._drawn)

        def sort(*args, **kwargs):
            result = original(*args, **kwargs)
            heard = not _is_compiling() and not self._over and watching.attached
            if heard and is_user_file(sys._getframe(1).f_code.co_filename):
                drawn(result if isinstance(result, torch.Tensor) else result[1], True)
            return result

        return sort

    def _around(self, original: Any) -> Any:
        watching = self.watching
        drawn = watching.probe("permutation", self._drawn)

        def randperm(*args, **kwargs):
            result = original(*args, **kwargs)
            if not self._over and watching.attached and is_user_file(sys._getframe(1).f_code.co_filename):
                drawn(result, False)
            return result

        return randperm

    def _drawn(self, result: torch.Tensor, sorts: bool) -> None:
        if result.dim() != 1 or result.numel() < _FEWEST or len(self._known) >= _MOST:
            return
        self._known[id(result)] = Permutation(result, user_source(), sorts=sorts)
        if self._index is None:
            self._follow_indexing()

    def _follow_indexing(self) -> None:
        original = torch.Tensor.__getitem__
        used = self.watching.probe("permutation", self._used)
        known = self._known

        def __getitem__(tensor, index):
            result = original(tensor, index)
            if id(index) in known:
                used(tensor, index, result)
            return result

        self._index = __getitem__
        self._patches.set(torch.Tensor, "__getitem__", __getitem__)

    def _used(self, tensor: torch.Tensor, index: Any, result: torch.Tensor) -> None:
        one = self._known[id(index)]
        if one.ref() is index and tensor.dim() and tensor.shape[0] == one.size:
            one.uses.append(user_source())
            one.moved.append(weakref.ref(result))
            one.answers |= tensor.requires_grad

    def root(self, root: torch.Tensor, scale: float) -> None:
        """A backward pass begins: what comes from here on is drawing batches."""
        if self._over:
            return
        self._over = True
        if self._index is not None and vars(torch.Tensor).get("__getitem__") is self._index:
            del torch.Tensor.__getitem__
        for one in self._known.values():
            if one.sorts:
                self._sorted(one)
            elif len(one.uses) == 1:
                self.watching.sink.event("permuted", "", {"size": one.size, "uses": 1}, one.uses[0])
        self._known.clear()

    def _sorted(self, one: Permutation) -> None:
        """A batch that was sorted before the network was fed it, and a target that was not: where to look, no proof."""
        fed, target = self._pair()
        if any(other.answers for other in self._known.values() if other.size == one.size):
            return  # answers are put back into the order of the targets
        if target is None or target.dim() == 0 or target.shape[0] != one.size:
            return
        for source, ref in zip(one.uses, one.moved):
            moved = ref()
            if moved is not None and any(moved is tensor for tensor in fed):
                found = source
                break
        else:
            return
        if not any(ref() is target for ref in one.moved):
            self.watching.sink.event("permuted", "", {"size": one.size, "uses": 1, "values": True}, found)
