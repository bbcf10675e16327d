"""Graphs that stay alive: a loss that is added up without `.item()` keeps everything its forward pass has made."""

from __future__ import annotations

import os
import weakref

import torch

from tensight.frameworks.torch.watching import Watching

MOST_CALLS = 400  # that are remembered
OF_A_CALL = 4  # tensors that speak for a forward pass

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Graphs:
    """Remembers, weakly, a few results inside forward passes with gradients, and counts those that outlive updates.

    After a backward pass a graph gives up what it has saved, so results of a healthy step are gone by the next one.
    """

    def __init__(self, watching: Watching) -> None:
        self.watching = watching
        self._calls: list[tuple[int, list[weakref.ref]]] = []  # number of the update they came before
        self._updates = 0
        self._new = True

    def called(self) -> None:
        """An outermost module is about to be called."""
        self._new = True

    def note(self, tensor: torch.Tensor) -> None:
        """The result of a module inside an outermost one."""
        if not tensor.requires_grad or tensor.is_leaf:
            return
        if self._new:
            if len(self._calls) >= MOST_CALLS:
                return
            self._new = False
            self._calls.append((self._updates, []))
        refs = self._calls[-1][1]
        if len(refs) < OF_A_CALL:
            refs.append(weakref.ref(tensor))

    def before_update(self) -> None:
        """An optimizer is about to step: tell how many passes from before the last update are still alive."""
        if not self.watching.deep or not self._calls:
            self._updates += 1
            return
        self._calls = [(update, refs) for update, refs in self._calls if any(ref() is not None for ref in refs)]
        old = sum(1 for update, _ in self._calls if update < self._updates)
        self._updates += 1
        self._new = True
        sink = self.watching.sink
        sink.scalar("graphs_alive", float(old))
        memory = _memory()
        if memory:
            sink.scalar("memory", memory)


def _memory() -> float:
    """Bytes of this process that are in memory; 0 where that is not told."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return float(int(file.read().split()[1]) * _PAGE)
    except (OSError, IndexError, ValueError):
        return 0.0
