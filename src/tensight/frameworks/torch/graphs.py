"""Graphs that stay alive: a loss that is added up without `.item()` keeps everything its forward pass has made."""

from __future__ import annotations

import os
import weakref
from collections import Counter
from typing import Any

import torch

from tensight.frameworks.source import is_user_file, source_of, user_frame
from tensight.frameworks.torch.lines import Site, kept_after
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.timing_held import Held
from tensight.frameworks.torch.watching import Watching
from tensight.records.event import Value

MOST_CALLS = 400  # that are remembered
OF_A_CALL = 24  # tensors that speak for a forward pass
TELLING = 4  # passes that are kept alive before their line is told
CALLERS = 3  # functions of the user above a call of the network: one of them keeps what another returns
LOOKS = 3  # at the user's variables, to see which of them keeps more each time

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class _Mark:
    """Lives as long as the node of a graph that it was laid into."""

    __slots__ = ("__weakref__",)


class Graphs:
    """Remembers, weakly, a few results inside forward passes with gradients, and counts those that outlive updates.

    After a backward pass a graph gives up what it has saved, so results of a healthy step are gone by the next one.
    Its nodes stay while a loss that was added up hangs on them: a mark in one of them tells.
    """

    def __init__(self, watching: Watching) -> None:
        self.watching = watching
        # number of the update they came before, results, and where the network was called
        self._calls: list[tuple[int, list[tuple[weakref.ref, str | None]], tuple[Site, ...]]] = []
        self._said: set[object] = set()
        self._updates = 0
        self._new = True
        self._sites: tuple[Site, ...] = ()
        self._held = Held()
        self._looks = 0

    def called(self) -> None:
        """An outermost module is about to be called."""
        self._new = True
        if self.watching.deep:
            self._sites = _callers()  # who calls the network: lines inside it are the same for every caller

    def note(self, tensor: torch.Tensor, path: str) -> None:
        """The result of a module inside an outermost one."""
        if not tensor.requires_grad or tensor.is_leaf or not self._begun(tensor):
            return
        refs = self._calls[-1][1]
        if len(refs) < OF_A_CALL:
            refs.append((weakref.ref(tensor), path))

    def ended(self, result: Any) -> None:
        """An outermost module has returned: a cell or a layer of a hand-written loop has none inside."""
        if not self._new:
            return
        if type(result) in (tuple, list):
            result = next((one for one in result if type(one) in PLAIN), None)
        if type(result) in PLAIN and result.requires_grad and not result.is_leaf:
            self._begun(result)

    def _begun(self, tensor: torch.Tensor) -> bool:
        """The call that a result belongs to is remembered, with the first result of it."""
        if self._new:
            if len(self._calls) >= MOST_CALLS:
                return False
            self._new = False
            self._calls.append((self._updates, _marked(tensor), self._sites or _callers()))
        return True

    def before_update(self) -> None:
        """Weights are about to change, or did by hand: tell how many passes before the last update are still alive."""
        if not self.watching.deep or not self._calls:
            self._updates += 1
            return
        self._calls = [call for call in self._calls if any(ref() is not None for ref, _ in call[1])]
        alive: Counter[tuple[Site, ...]] = Counter(sites for update, _, sites in self._calls if update < self._updates)
        old = alive.total()
        if old >= TELLING:
            self._tell(alive)
            self._look(old)
        self._updates += 1
        self._new = True
        sink = self.watching.sink
        sink.scalar("graphs_alive", float(old))
        memory = _memory()
        if memory:
            sink.scalar("memory", memory)

    def _tell(self, alive: Counter[tuple[Site, ...]]) -> None:
        """The call of the network that most of them come from, and the line that keeps its result."""
        sites, count = alive.most_common(1)[0]
        if sites and sites not in self._said:
            self._said.add(sites)
            source = next((kept for site in sites if (kept := kept_after(site))), None) or source_of(*sites[0])
            paths = Counter(
                path
                for update, refs, _ in self._calls
                if update < self._updates
                for ref, path in refs
                if ref() is not None and path is not None
            )
            values: dict[str, Value] = {"graphs": count}
            if len(paths) == 1:  # one module's results, and no others: somebody collects them
                values["module"] = next(iter(paths))
            self.watching.sink.event("graph_alive", self.watching.network, values, source)

    def _look(self, old: int) -> None:
        """Which variable of the program keeps them: the one that more nodes hang on at each look. Said once."""
        if self._looks >= LOOKS:
            return
        self._looks += 1
        self._held.look()
        if self._looks < LOOKS:
            return
        for one in self._held.growing():
            if one.source is not None:
                values: dict[str, Value] = {"graphs": old, "variable": one.what}
                self.watching.sink.event("graph_alive", self.watching.network, values, one.source)
                return


def _callers() -> tuple[Site, ...]:
    """The user's lines that lead to here, innermost first."""
    frame = user_frame(3)
    found: list[Site] = []
    while frame is not None and len(found) < CALLERS and is_user_file(frame.f_code.co_filename):
        found.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(found)


def _marked(tensor: torch.Tensor) -> list[tuple[weakref.ref, str | None]]:
    """A mark in the node that made a result: what torch itself keeps there is for tracebacks of anomaly mode."""
    mark = _Mark()
    try:
        tensor.grad_fn.metadata["tensight"] = mark
    except (AttributeError, TypeError):
        return []
    return [(weakref.ref(mark), None)]


def _memory() -> float:
    """Bytes of this process that are in memory; 0 where that is not told."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return float(int(file.read().split()[1]) * _PAGE)
    except (OSError, IndexError, ValueError):
        return 0.0
