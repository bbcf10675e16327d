"""Data sets: the batches they hand out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from mindspore import Tensor

from tensight.frameworks.adapter import Array
from tensight.frameworks.identity import IdentityMap
from tensight.frameworks.mindspore.values import measured, view
from tensight.frameworks.mindspore.watching import Watching, free_name
from tensight.frameworks.source import user_source
from tensight.records import Needs, Part, Source
from tensight.records.event import Value

_MOST = 4  # tensors of a batch that are described
_MOST_PRINTS = 100_000


class Epoch:
    """One pass over a data set by an iterator."""

    def __init__(self, name: str, source: Source | None) -> None:
        self.name = name
        self.source = source
        self.index = 0
        self.prints: dict[int, int] = {}  # what a batch looks like → the step that was fed it


class Batches:
    """Stands around the iterators of `mindspore.dataset`."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._epochs: IdentityMap[Any, Epoch] = IdentityMap()  # by iterator
        self._loaders: IdentityMap[Any, str] = IdentityMap()  # by data set: each epoch may have an iterator of its own
        self._names: set[str] = set()

    def patch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`Iterator.__next__` of a data set."""

        def __next__(iterator: Any) -> Any:
            try:
                batch = original(iterator)
            except StopIteration:
                self._epochs.pop(iterator)
                raise
            self._watching.probe("batch", self._handed_out, iterator, batch)
            return batch

        return __next__

    def _handed_out(self, iterator: Any, batch: Any) -> None:
        watching = self._watching
        if watching.busy:
            return
        epoch = self._epochs.get(iterator)
        if epoch is None:
            source = user_source()
            epoch = self._epochs[iterator] = Epoch(self._name(iterator, source), source)
        values: dict[str, Value] = {}
        columns = batch.values() if isinstance(batch, dict) else batch
        for index, column in enumerate(columns):
            if index >= _MOST or not isinstance(column, (Tensor, np.ndarray)):
                break
            if index == 0 and column.ndim:
                values["size"] = int(column.shape[0])
            if watching.some:
                values |= described(index, column)
        if "mean.0" in values:
            mark = hash(tuple(values.values()))
            if mark in epoch.prints:
                values["repeat_of"] = epoch.prints[mark]
            elif len(epoch.prints) < _MOST_PRINTS:
                epoch.prints[mark] = watching.sink.step
        values["index"] = epoch.index
        epoch.index += 1
        watching.sink.event("batch", epoch.name, values, epoch.source)

    def _name(self, iterator: Any, source: Source | None) -> str:
        dataset = getattr(iterator, "_Iterator__ori_dataset", iterator)
        known = self._loaders.get(dataset)
        if known is not None:
            return known
        base = type(dataset).__name__
        name = self._loaders[dataset] = free_name(base, self._names)
        self._names.add(name)
        settings: dict[str, Value] = {}
        for key in ("batch_size", "num_parallel_workers", "drop_remainder"):
            value = getattr(dataset, key, None)
            if isinstance(value, (bool, int, str)):
                settings[key] = value
        with contextlib.suppress(Exception):  # a source of the user's own may answer anything
            settings["shuffle"] = shuffled(dataset)
        self._watching.sink.part(Part("loader", name, base, settings, source))
        return name


def shuffled(dataset: Any) -> bool:
    """Whether the order of rows is drawn. MindSpore says so of an iterator, too, which it reads as it comes."""
    kind, children = type(dataset).__name__, dataset.children
    if kind == "GeneratorDataset" and not hasattr(dataset.source, "__getitem__"):
        return False
    if kind == "ShuffleDataset" or not children:
        return bool(dataset.is_shuffled())
    return any(map(shuffled, children))


def described(index: int, tensor: Tensor | Array) -> dict[str, Value]:
    array = view(tensor)
    values: dict[str, Value] = {f"shape.{index}": "x".join(str(n) for n in array.shape)}
    if array.dtype.kind not in "biuf":
        return values
    stats = measured(array, Needs())
    for name in ("min", "max", "mean", "std", "nan"):
        values[f"{name}.{index}"] = getattr(stats, name)
    return values
