"""What attention looks at: the future, the padding, everything; told in the first steps.

Attention is known by its softmax: over scores that are as many as there are positions, whoever wrote it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from mindspore import Tensor

from tensight.frameworks.adapter import Array
from tensight.frameworks.mindspore.values import view, widened
from tensight.frameworks.mindspore.watching import Watching
from tensight.frameworks.source import user_source
from tensight.records.event import Value

if TYPE_CHECKING:
    from tensight.frameworks.mindspore.cells import Cells

STEPS = 6  # that are looked at
FEWEST = 4  # positions; fewer are no sequence
_MOST_OF_A_STEP = 8
_MOST_VALUES = 4_000_000


class Attention:
    """Told of every softmax in the forward pass."""

    def __init__(self, watching: Watching, cells: Cells) -> None:
        self._watching = watching
        self._cells = cells
        self._step = -1
        self._told = 0

    def made(self, weights: Tensor) -> None:
        """A softmax has returned."""
        watching = self._watching
        step = watching.sink.step
        if step != self._step:
            self._step, self._told = step, 0
        shape = weights.shape
        if step >= STEPS or self._told >= _MOST_OF_A_STEP or len(shape) < 3 or weights.size > _MOST_VALUES:
            return
        rows, columns = int(shape[-2]), int(shape[-1])
        if min(rows, columns) < FEWEST:
            return
        array = widened(view(weights))
        sums = array.sum(-1)
        if not np.all((abs(sums - 1) < 1e-2) | (sums == 0)):
            return  # over another axis
        self._told += 1
        network, module = self._cells.where()
        values: dict[str, Value] = {"function": "softmax", "rows": rows, "columns": columns, "module": module}
        values |= looked_at(array)
        open_ = array.reshape(shape[0], -1, columns).max(1) > 0
        values |= only_padding(open_, self._cells.losses.tokens)
        watching.sink.event("attention", network, values, user_source())


def looked_at(weights: Array) -> dict[str, Value]:
    """Whether positions look ahead and back; of two sequences it is not known which lies ahead.

    >>> looked_at(np.tril(np.ones((1, 4, 4))) / np.arange(1, 5)[:, None])
    {'future': False, 'past': True}
    """
    rows, columns = weights.shape[-2:]
    if rows != columns:
        return {"future": None}
    flat = weights.reshape(-1, rows, columns)
    return {"future": bool((np.triu(flat, 1) > 0).any()), "past": bool((np.tril(flat, -1) > 0).any())}


def only_padding(open_: Array, fed: list[Array]) -> dict[str, Value]:
    """Whether only padding is looked at: open positions all hold one token, shut ones hold many.

    >>> tokens = np.array([[5, 6, 0, 0], [7, 8, 9, 0]])
    >>> only_padding(tokens == 0, [tokens])
    {'only_padding': True, 'token': 0}
    """
    if open_.all() or not open_.any():
        return {}
    for tokens in fed:
        if tokens.shape == open_.shape:
            seen, hidden = tokens[open_], tokens[~open_]
            inverted = bool(seen.min() == seen.max()) and np.unique(hidden).size > 2
            return {"only_padding": True, "token": int(seen[0])} if inverted else {"only_padding": False}
    return {}


def shift(target: Array, fed: list[Array]) -> dict[str, Value]:
    """Whether the targets are the tokens that the network was fed: the same, or the next ones.

    >>> text = np.arange(40).reshape(2, 20) % 7
    >>> shift(text[:, 1:].reshape(-1), [text[:, :-1]])
    {'target_shift': 1}
    """
    for tokens in fed:
        if target.dtype.kind not in "iu" or tokens.size != target.size or tokens.size < 8:
            continue
        if tokens.min() == tokens.max():
            continue
        wanted = target.reshape(tokens.shape)
        if _agree(wanted, tokens):
            return {"target_shift": 0}
        if tokens.shape[1] > 3 and _agree(wanted[:, :-1], tokens[:, 1:]):
            return {"target_shift": 1}
        if tokens.shape[0] > 3 and _agree(wanted[:-1], tokens[1:]):
            return {"target_shift": 1}
    return {}


def _agree(a: Array, b: Array) -> bool:
    counted = a >= 0  # a negative label is left out of the loss
    return int(counted.sum()) >= 4 and bool((a == b)[counted].all())
