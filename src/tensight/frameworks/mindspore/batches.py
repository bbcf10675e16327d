"""Data sets: the batches they hand out."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from mindspore import Tensor

from tensight.frameworks.mindspore.values import measured, tensors, view
from tensight.frameworks.mindspore.watching import Watching, free_name
from tensight.frameworks.source import user_source
from tensight.records import Needs, Part
from tensight.records.event import Value

_MOST = 4  # tensors of a batch that are described


class Batches:
    """Stands around the iterators of `mindspore.dataset`."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching
        self._seen: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        self._names: set[str] = set()

    def patch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`Iterator.__next__` of a data set."""

        def __next__(iterator: Any) -> Any:
            batch = original(iterator)
            self._watching.probe("batch", self._handed_out, iterator, batch)
            return batch

        return __next__

    def _handed_out(self, iterator: Any, batch: Any) -> None:
        watching = self._watching
        state = self._seen.get(iterator)
        if state is None:
            state = self._seen[iterator] = [self._tell(iterator), 0]
        values: dict[str, Value] = {"index": state[1]}
        state[1] += 1
        for index, (_, tensor) in enumerate(tensors(batch, "")):
            if index == 0 and tensor.ndim:
                values["size"] = int(tensor.shape[0])
            if index >= _MOST or not watching.all:
                break
            values |= described(index, tensor)
        watching.sink.event("batch", state[0], values)

    def _tell(self, iterator: Any) -> str:
        dataset = getattr(iterator, "dataset", None) or getattr(iterator, "ori_dataset", None)
        base = type(dataset).__name__ if dataset is not None else "Dataset"
        name = free_name(base, self._names)
        self._names.add(name)
        settings: dict[str, Value] = {}
        for key in ("batch_size", "num_parallel_workers", "drop_remainder"):
            value = getattr(dataset, key, None)
            if isinstance(value, (bool, int, str)):
                settings[key] = value
        self._watching.sink.part(Part("loader", name, base, settings, user_source()))
        return name


def described(index: int, tensor: Tensor) -> dict[str, Value]:
    array = view(tensor)
    values: dict[str, Value] = {f"shape.{index}": "x".join(str(n) for n in array.shape)}
    if array.dtype.kind not in "biuf":
        return values
    stats = measured(array, Needs())
    for name in ("min", "max", "mean", "std", "nan"):
        values[f"{name}.{index}"] = getattr(stats, name)
    return values
