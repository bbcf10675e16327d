"""What a metric is: cleared, updated batch by batch, evaluated; and merged when several ranks have seen a part each."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np

from tensight.errors import UsageError
from tensight.kit.backend import Array, array

Self = TypeVar("Self", bound="Metric")
State = Mapping[str, Array]


class Metric(ABC):
    """Base of all metrics; a user's own implements `clear`, `update` and `eval`.

    >>> class Largest(Metric):
    ...     def clear(self): self.most = float("-inf")
    ...     def update(self, outputs, labels): self.most = max(self.most, max(outputs))
    ...     def eval(self): return self.most
    >>> largest = Largest(); largest.clear(); largest.update([1, 7], None); largest.update([3], None); largest.eval()
    7
    """

    mergeable: ClassVar[bool] = False

    @abstractmethod
    def clear(self) -> None:
        """Begin anew."""

    @abstractmethod
    def update(self, *inputs: Any) -> None:
        """Take in a batch: usually what the network answered, and the label."""

    @abstractmethod
    def eval(self) -> Any:
        """The value over all batches since `clear`."""

    def state(self) -> State:
        """What another rank needs to know of this one."""
        raise UsageError(f"{type(self).__name__} cannot be merged over ranks: it has no state()")

    def merged(self: Self, states: Sequence[State]) -> Self:
        """A metric that has seen everything that the states have."""
        raise UsageError(f"{type(self).__name__} cannot be merged over ranks: it has no merged()")


class Gathering(Metric):
    """A metric whose state is a few arrays: those named in `sums` add up, those in `rows` are put one below another.

    Sums of different length (classes that a later batch brings) are filled up with zeros.
    """

    mergeable = True
    sums: ClassVar[tuple[str, ...]] = ()
    rows: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._held: dict[str, list[Array]] = {name: [] for name in (*self.sums, *self.rows)}

    def state(self) -> State:
        return {name: self._value(name) for name, held in self._held.items() if held}

    def merged(self: Self, states: Sequence[State]) -> Self:
        whole = copy.copy(self)
        whole.clear()
        for state in states:
            for name, value in state.items():
                whole._put(name, value)  # type: ignore[attr-defined]
        return whole

    def _put(self, name: str, value: Any) -> None:
        held = self._held[name]
        held.append(np.asarray(value))
        if name in self.sums and len(held) > 1:
            held[:] = [_added(held[0], held[1])]

    def _value(self, name: str) -> Array:
        held = self._held[name]
        if not held:
            raise UsageError(f"{type(self).__name__}.eval: nothing was given to update() since clear()")
        if len(held) > 1:
            held[:] = [np.concatenate(held)]
        return held[0]

    def _total(self, name: str) -> float:
        return float(self._value(name).sum())


def _added(first: Array, second: Array) -> Array:
    if first.shape == second.shape:
        return np.asarray(first + second)
    shape = tuple(max(pair) for pair in zip(first.shape, second.shape))
    whole = np.zeros(shape, np.result_type(first, second))
    for part in (first, second):
        whole[tuple(slice(0, length) for length in part.shape)] += part
    return whole


def pair(metric: object, inputs: Sequence[Any]) -> tuple[Array, Array]:
    """Prediction and label of an update, as arrays."""
    if len(inputs) != 2:
        raise UsageError(f"{type(metric).__name__}.update takes a prediction and a label, not {len(inputs)} values")
    return array(inputs[0]), array(inputs[1])


def same_shape(metric: object, inputs: Sequence[Any]) -> tuple[Array, Array]:
    """Prediction and label that must match value by value."""
    predicted, wanted = pair(metric, inputs)
    if predicted.shape != wanted.shape:
        raise UsageError(
            f"{type(metric).__name__}.update: the prediction has shape {list(predicted.shape)} and the label"
            f" {list(wanted.shape)}; they must be the same"
        )
    return predicted.astype(np.float64), wanted.astype(np.float64)
