"""Which node of a graph a tensor came from.

An address tells, as long as all tensors are kept alive. But MindSpore hands an operator a copy of what is only a view
(a reshape, a transpose), at another address, and does not show indexing at all: those are told by their values.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from mindspore import Tensor

from tensight.frameworks.adapter import Array
from tensight.frameworks.mindspore.values import Unjudged, view

_MOST_VALUES = 1 << 20  # larger ones are told by their address alone
_RECENT = 64  # results that are asked, the latest first


class Origins:
    """Tensors of one step and the nodes that gave them."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, tuple[int, ...]], int] = {}  # address and shape: a view may share the address
        self._alive: list[tuple[Tensor, int]] = []  # so that no address is used twice

    def add(self, tensor: Tensor, node: int) -> None:
        self.hold(tensor, node)
        self._alive.append((tensor, node))

    def hold(self, tensor: Tensor, node: int) -> None:
        """Something that lives by itself, a parameter."""
        self._nodes[tensor.data_ptr(), tuple(tensor.shape)] = node

    def node(self, tensor: Tensor) -> int | None:
        """The node that gave this very tensor, or a view that it is a copy of."""
        found = self._nodes.get((tensor.data_ptr(), tuple(tensor.shape)))
        if found is None:
            found = next((node for given, node in self._like(tensor) if _same(given, tensor)), None)
            if found is not None:
                self.add(tensor, found)
        return found

    def whole(self, tensor: Tensor) -> int | None:
        """The node of a tensor that this one is a part of, along one axis: 'x[:, -1]', 'x[:, :8]'."""
        part = _values(tensor)
        if part is None or part.size < 2 or part.min() == part.max():
            return None
        for given, node in self._alive[: -_RECENT - 1 : -1]:
            if given.size > part.size and given.dtype == tensor.dtype:
                values = _values(given)
                if values is not None and any(np.array_equal(one, part) for one in _parts(values, part)):
                    return node
        return None

    def clear(self) -> None:
        self._nodes.clear()
        self._alive.clear()

    def _like(self, tensor: Tensor) -> Iterator[tuple[Tensor, int]]:
        for given, node in self._alive[: -_RECENT - 1 : -1]:
            if given.dtype == tensor.dtype and given.shape == tensor.shape:
                yield given, node


def _values(tensor: Tensor) -> Array | None:
    if tensor.size > _MOST_VALUES:
        return None
    try:
        return view(tensor)
    except Unjudged:
        return None


def _same(one: Tensor, other: Tensor) -> bool:
    first, second = _values(one), _values(other)
    if first is None or second is None:
        return False
    if first.reshape(-1)[:16].tobytes() != second.reshape(-1)[:16].tobytes():  # most differ here already
        return False
    return first.tobytes() == second.tobytes()


def _parts(values: Array, part: Array) -> Iterator[Array]:
    """Slices of the part's shape that begin as it does: one place of an axis, or a piece of one."""
    begin = part.reshape(-1)[0]
    for axis, length in enumerate(values.shape):
        rest = values.shape[:axis] + values.shape[axis + 1 :]
        along = (0,) * axis + (slice(None),) + (0,) * (values.ndim - axis - 1)
        if rest == part.shape:
            for place in np.flatnonzero(values[along] == begin):
                yield values.take(place, axis)
        elif values.ndim == part.ndim and rest == part.shape[:axis] + part.shape[axis + 1 :]:
            size = part.shape[axis]
            for place in np.flatnonzero(values[along][: length - size + 1] == begin):
                yield values.take(range(place, place + size), axis)
