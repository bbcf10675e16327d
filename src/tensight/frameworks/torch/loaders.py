"""Data loaders: the batches they hand out."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.patches import Patches
from tensight.frameworks.source import user_source
from tensight.frameworks.torch import statistics
from tensight.frameworks.torch.loss_facts import shape_text
from tensight.frameworks.torch.nested import tensors
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import Watching
from tensight.frameworks.torch.worker_seeds import WorkerSeeds
from tensight.records import Part, Source
from tensight.records.event import Value

_MOST_TENSORS = 8
_MOST_PRINTS = 4096
_SAME_ORDER = 2  # epochs that repeat the order of the first: one may be a second look at the same data
_MOST_SAMPLES = 10_000  # numbers of samples that are remembered of a loader


class Feeding:
    """One loader, and where in it we are."""

    def __init__(self, name: str, source: Source | None) -> None:
        self.name = name
        self.source = source
        self.index = 0
        self.prints: dict[int, int] = {}  # fingerprint of a batch → the step that was fed it in this epoch
        self.drawn = 0  # samples that the sampler has named so far, over all epochs
        self.distinct: set[int] = set()  # of which different ones
        self.counted = True  # while they are numbers, and not too many to remember
        self.trains = False  # its batches are asked for where gradients are wanted
        self.epoch: int | None = None  # what its sampler shuffles by, where that must be told in each epoch
        self.again = 0  # iterations in a row that were shuffled by the same
        self.again_since = 0


class Loaders:
    """Watches `torch.utils.data.DataLoader`."""

    def __init__(self, watching: Watching, patches: Patches) -> None:
        self.watching = watching
        self.known: IdentityMap[DataLoader, Feeding] = IdentityMap()
        self._of_iterator: IdentityMap[Any, Feeding] = IdentityMap()
        self._names: set[str] = set()
        self._seeds = WorkerSeeds(watching, patches, self._same_numbers, self._written)
        patches.wrap(DataLoader, "__init__", self._around_init)
        patches.wrap(DataLoader, "__iter__", self._around_iter)
        patches.wrap(_BaseDataLoaderIter, "__next__", self._around_next)
        patches.wrap(_BaseDataLoaderIter, "_next_index", self._around_next_index)

    def _around_init(self, original: Any) -> Any:
        watching = self.watching
        found = watching.probe("loader", self._found)

        def __init__(loader, *args, **kwargs):
            original(loader, *args, **kwargs)
            if watching.attached:
                found(loader)

        return __init__

    def _found(self, loader: DataLoader) -> Feeding:
        known = self.known.get(loader)
        if known is None:
            kind = type(loader).__name__
            name, number = kind, 2
            while name in self._names:
                name, number = f"{kind}-{number}", number + 1
            self._names.add(name)
            known = self.known[loader] = Feeding(name, user_source())
            settings: dict[str, Value] = {
                "batch_size": loader.batch_size,
                "shuffle": isinstance(getattr(loader, "sampler", None), RandomSampler),
                "sampler": type(getattr(loader, "sampler", None)).__name__,
                "workers": loader.num_workers,
                "drop_last": bool(loader.drop_last),
            }
            settings |= _lengths(loader)
            replicas = getattr(loader.sampler, "num_replicas", None)
            if isinstance(replicas, int):  # a DistributedSampler: which part of the data this rank takes
                settings |= {"replicas": replicas, "replica": getattr(loader.sampler, "rank", None)}
                settings["sampler_seed"] = getattr(loader.sampler, "seed", None)
            try:
                settings["batches"] = len(loader)
            except TypeError:  # a stream has no length
                settings["batches"] = None
            self.watching.sink.part(Part("loader", name, kind, settings, known.source))
        return known

    def _around_iter(self, original: Any) -> Any:
        watching = self.watching
        began = watching.probe("loader", self._began)

        def __iter__(loader):
            iterator = original(loader)
            if watching.attached:
                began(loader, iterator)
            return iterator

        return __iter__

    def _began(self, loader: DataLoader, iterator: Any) -> None:
        feeding = self._found(loader)
        self._shuffled_by(feeding, loader)
        feeding.index = 0
        feeding.prints = {}
        self._of_iterator[iterator] = feeding

    def _shuffled_by(self, feeding: Feeding, loader: DataLoader) -> None:
        """A sampler that divides data among ranks shuffles alike until `set_epoch` tells it otherwise."""
        sampler = loader.sampler
        epoch = getattr(sampler, "epoch", None)
        if type(sampler) is not DistributedSampler or not sampler.shuffle or feeding.index < 2:
            feeding.epoch = epoch
            return
        if epoch != feeding.epoch:
            feeding.epoch, feeding.again = epoch, 0
            return
        feeding.again += 1
        if feeding.again == 1:
            feeding.again_since = self.watching.sink.step
        elif feeding.again == _SAME_ORDER and feeding.trains:
            values: dict[str, Value] = {"epochs": 1 + feeding.again, "epoch": epoch, "since": feeding.again_since}
            self.watching.sink.event("same_order", feeding.name, values, feeding.source)

    def _around_next(self, original: Any) -> Any:
        watching = self.watching
        handed_out = watching.probe("batch", self._handed_out)

        def __next__(iterator):
            batch = original(iterator)
            if watching.active:
                handed_out(iterator, batch)
            return batch

        return __next__

    def _around_next_index(self, original: Any) -> Any:
        watching = self.watching
        named = watching.probe("sampler", self._named)

        def _next_index(iterator):
            index = original(iterator)
            if watching.attached:
                named(iterator, index)
            return index

        return _next_index

    def _named(self, iterator: Any, index: Any) -> None:
        """Which samples the next batch is made of."""
        feeding = self._of_iterator.get(iterator)
        if feeding is None or not feeding.counted:
            return
        found = index if isinstance(index, list) else [index]
        feeding.counted = len(feeding.distinct) <= _MOST_SAMPLES and all(type(one) is int for one in found)
        if feeding.counted:
            feeding.drawn += len(found)
            feeding.distinct.update(found)

    def _handed_out(self, iterator: Any, batch: Any) -> None:
        feeding = self._of_iterator.get(iterator)
        if feeding is None:
            return
        watching = self.watching
        self._seeds.handed_out(iterator, feeding.index)
        feeding.trains = feeding.trains or torch.is_grad_enabled()
        values: dict[str, Value] = {"index": feeding.index}
        feeding.index += 1
        if feeding.counted and feeding.drawn:
            values["drawn"], values["distinct"] = feeding.drawn, len(feeding.distinct)
        found = [tensor for _, tensor in tensors(batch, "batch") if type(tensor) in PLAIN][:_MOST_TENSORS]
        if found and found[0].dim():
            values["size"] = found[0].shape[0]
        if watching.gradients and found:
            self._facts(feeding, found, values)
        watching.sink.event("batch", feeding.name, values, feeding.source)

    def _same_numbers(self, iterator: Any, name: str, workers: int, of: int, source: Source | None) -> None:
        feeding = self._of_iterator.get(iterator)
        if feeding is not None:
            values: dict[str, Value] = {"generator": name, "same": workers, "workers": of}
            self.watching.sink.event("workers", feeding.name, values, source or feeding.source)

    def _written(self, iterator: Any, attribute: str) -> None:
        feeding = self._of_iterator.get(iterator)
        if feeding is not None:
            self.watching.sink.event("stored_written", feeding.name, {"attribute": attribute}, feeding.source)

    def _facts(self, feeding: Feeding, found: list[torch.Tensor], values: dict[str, Value]) -> None:
        prints = []
        for index, tensor in enumerate(found):
            stats = statistics.one(tensor)
            values[f"shape.{index}"] = shape_text(tensor)
            values[f"min.{index}"], values[f"max.{index}"] = stats.min, stats.max
            values[f"mean.{index}"], values[f"std.{index}"] = stats.mean, stats.std
            values[f"nan.{index}"] = stats.nan
            prints.append((values[f"shape.{index}"], stats.mean, stats.l2, _sample(tensor)))
        mark = hash(tuple(prints))
        step = self.watching.sink.step
        if mark in feeding.prints:
            values["repeat_of"] = feeding.prints[mark]
        elif len(feeding.prints) < _MOST_PRINTS:
            feeding.prints[mark] = step


def _lengths(loader: DataLoader) -> dict[str, Value]:
    """How many samples there are, and how many a sampler draws and weighs."""
    found: dict[str, Value] = {}
    own = loader.batch_size is None and loader.batch_sampler is not None  # batches of the user's own making
    sampler = getattr(loader.batch_sampler if own else loader, "sampler", None)
    for name, one in (
        ("samples", loader.dataset),
        ("sampled", sampler),
        ("weighed", getattr(sampler, "weights", None)),
    ):
        try:
            found[name] = len(one)  # type: ignore[arg-type]
        except (TypeError, NotImplementedError):
            continue  # a stream has no length
    return found


def _sample(tensor: torch.Tensor) -> tuple:
    """A few elements from all over a tensor."""
    if not tensor.numel() or tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        return ()
    flat = tensor.detach().reshape(-1) if tensor.is_contiguous() else tensor.detach().flatten()
    return tuple(flat[:: max(1, flat.numel() // 16)][:16].tolist())
