"""Data loaders under the clock: how long each batch was waited for, and how often a loader began anew."""

from __future__ import annotations

import os
import time
from typing import Any

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.patches import Patches
from tensight.frameworks.source import is_user_file, source_of, user_source
from tensight.frameworks.timing import now
from tensight.records import Source
from tensight.records.timing import LoaderTime

_MOST_WAITS = 5000
_MOST_LOADERS = 16
_MOST_WORKERS = 1000
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Feed:
    """One place in the program that makes a loader; a loader made anew each step is one feed."""

    def __init__(self, loader: DataLoader, source: Source | None) -> None:
        self.source = source
        self.name = type(loader).__name__
        self.dataset = type(loader.dataset).__name__
        self.dataset_source = _code_of(loader.dataset)
        self.batch_size = loader.batch_size or 0
        self.workers = loader.num_workers
        self.pinned = bool(loader.pin_memory)
        self.persistent = bool(loader.persistent_workers)
        self.prefetch = loader.prefetch_factor or 0
        try:
            self.length = len(loader)
        except TypeError:  # a stream has no length
            self.length = 0
        self.iterators = 0
        self.waits: list[float] = []
        self.batches = 0
        self.seconds = self.cpu = self.worker_cpu = 0.0
        self.pids: dict[int, float] = {}  # workers, and what they had computed when counting began

    def count_workers(self, on: bool) -> None:
        """Counting begins or ends: what the workers have computed in between."""
        for pid, before in self.pids.items():
            spent = _processor_seconds(pid)
            if spent is None:
                continue
            if on:
                self.pids[pid] = spent
            else:
                self.worker_cpu += max(0.0, spent - before)

    def record(self) -> LoaderTime:
        return LoaderTime(
            self.name,
            self.source,
            self.dataset,
            self.dataset_source,
            self.batch_size,
            self.workers,
            self.pinned,
            self.persistent,
            self.prefetch,
            self.iterators,
            self.batches,
            self.length,
            tuple(self.waits),
            self.seconds,
            self.cpu,
            self.worker_cpu,
        )


class TimedLoaders:
    """Stands around `DataLoader`."""

    def __init__(self) -> None:
        self._counting = False
        self._feeds: dict[object, Feed] = {}
        self._of_loader: IdentityMap[DataLoader, Feed] = IdentityMap()
        self._of_iterator: IdentityMap[Any, Feed] = IdentityMap()
        self._batches = self._iterators = 0

    @property
    def counting(self) -> bool:
        """Whether batches count: in the clocked steps they do."""
        return self._counting

    @counting.setter
    def counting(self, on: bool) -> None:
        if on != self._counting:
            self._counting = on
            for feed in self._feeds.values():
                feed.count_workers(on)

    def attach(self, patches: Patches, timing: Any) -> None:
        clock = timing.clock

        def around_init(original: Any) -> Any:
            def __init__(loader, *args, **kwargs):
                original(loader, *args, **kwargs)
                if timing.on:
                    self._found(loader)

            return __init__

        def around_iter(original: Any) -> Any:
            def __iter__(loader):
                if not timing.on or not clock.mine():
                    return original(loader)
                if not clock.stack:
                    timing.boundary()
                timing.enter("data")
                began = now()
                try:
                    iterator = original(loader)
                finally:
                    timing.leave()
                self._began(loader, iterator, now() - began)
                return iterator

            return __iter__

        def around_next(original: Any) -> Any:
            def __next__(iterator):
                if not timing.on or not clock.mine():
                    return original(iterator)
                if not clock.stack:
                    timing.boundary()
                delayed = clock.delays["data"]
                timing.enter("data")
                began, cpu = now(), time.thread_time()
                try:
                    batch = original(iterator)
                finally:
                    timing.leave()
                # without what the thread waited for a processor, which is not the loader's doing
                seconds = now() - began - (clock.delays["data"] - delayed)
                self._handed_out(iterator, max(0.0, seconds), time.thread_time() - cpu)
                return batch

            return __next__

        patches.wrap(DataLoader, "__init__", around_init)
        patches.wrap(DataLoader, "__iter__", around_iter)
        patches.wrap(_BaseDataLoaderIter, "__next__", around_next)

    def _found(self, loader: DataLoader) -> Feed:
        feed = self._of_loader.get(loader)
        if feed is None:
            source = user_source()
            key = (source.file, source.line) if source is not None else id(loader)
            feed = self._feeds.get(key)
            if feed is None:
                feed = Feed(loader, source)
                if len(self._feeds) < _MOST_LOADERS:
                    self._feeds[key] = feed
            self._of_loader[loader] = feed
        return feed

    def _began(self, loader: DataLoader, iterator: Any, seconds: float) -> None:
        feed = self._found(loader)
        self._of_iterator[iterator] = feed
        self._iterators += 1
        for worker in getattr(iterator, "_workers", ()):
            if worker.pid is not None and len(feed.pids) < _MOST_WORKERS:
                feed.pids.setdefault(worker.pid, 0.0)
        if self.counting:
            feed.iterators += 1
            feed.seconds += seconds

    def _handed_out(self, iterator: Any, seconds: float, cpu: float) -> None:
        self._batches += 1
        feed = self._of_iterator.get(iterator)
        if feed is None or not self.counting:
            return
        feed.batches += 1
        feed.seconds += seconds
        feed.cpu += cpu
        if len(feed.waits) < _MOST_WAITS:
            feed.waits.append(seconds)

    def cut(self) -> tuple[int, int]:
        """Batches handed out and iterators made in the step that has ended."""
        found = self._batches, self._iterators
        self._batches = self._iterators = 0
        return found

    def records(self) -> tuple[LoaderTime, ...]:
        return tuple(feed.record() for feed in self._feeds.values())


def _processor_seconds(pid: int) -> float | None:
    """What another process has computed so far; None where that is not told."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    except (OSError, IndexError, ValueError):
        return None


def _code_of(dataset: Any) -> Source | None:
    """Where a data set makes its samples, when that is the user's own code."""
    for name in ("__getitem__", "__iter__", "__getitems__"):
        code = getattr(getattr(type(dataset), name, None), "__code__", None)
        if code is not None and is_user_file(code.co_filename):
            return source_of(code.co_filename, code.co_firstlineno, code.co_name)
    return None
