"""What attention looks at: the future, the padding, everything; told in the first steps.

Attention is known by its softmax: over scores that are as many as there are positions, whoever wrote it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from mindspore import Parameter, Tensor

from tensight.frameworks.adapter import Array
from tensight.frameworks.mindspore.operators import arguments, public_name
from tensight.frameworks.mindspore.values import dtype_name, view, widened
from tensight.frameworks.mindspore.watching import Watching
from tensight.frameworks.source import user_source
from tensight.records.event import Value

if TYPE_CHECKING:
    from tensight.frameworks.mindspore.cells import Cells

STEPS = 6  # that are looked at
FEWEST = 4  # positions; fewer are no sequence
_MOST_OF_A_STEP = 8
_MOST_VALUES = 4_000_000
_CARRIES = ("cast", "div", "mul", "reshape")  # what may stand between a mask that is added and the softmax


class Attention:
    """Told of every operator in the forward pass of the first steps, and of every softmax."""

    def __init__(self, watching: Watching, cells: Cells) -> None:
        self._watching = watching
        self._cells = cells
        self._step = -1
        self._told = 0
        self._sum: tuple[Tensor, Tensor, Tensor] | None = None  # what an addition gave last, and was given

    def ran(self, name: str, args: Any, result: Any) -> None:
        """An operator has run: one that may add a mask to scores is remembered until the next."""
        if not self._cells.stack or not isinstance(result, Tensor):
            return
        known = public_name(name)
        if known == "add" and result.ndim >= 3 and min(result.shape[-2:]) >= FEWEST and result.size <= _MOST_VALUES:
            given = [value for value in arguments(args) if isinstance(value, Tensor)]
            self._sum = (result, given[0], given[1]) if len(given) == 2 else None
        elif known in _CARRIES and self._sum is not None:
            given = [value for value in arguments(args) if isinstance(value, Tensor)]
            if given and given[0].data_ptr() == self._sum[0].data_ptr():
                self._sum = (result, *self._sum[1:])

    def forget(self) -> None:
        """The pass is over: nothing of it is kept alive."""
        self._sum = None

    def made(self, weights: Tensor, args: Any) -> None:
        """A softmax has returned."""
        watching = self._watching
        added, self._sum = self._sum, None
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
        scores = next((value for value in arguments(args) if isinstance(value, Tensor)), None)
        if added is not None and scores is not None and scores.data_ptr() == added[0].data_ptr():
            values |= binary_mask(added[1:])
        watching.sink.event("attention", network, values, user_source())


def binary_mask(given: tuple[Tensor, ...]) -> dict[str, Value]:
    """Whether one of two tensors that were added holds 0 and 1 and nothing else: as a mask it shuts nothing.

    >>> import mindspore
    >>> binary_mask((mindspore.Tensor([[0.3, 0.4]]), mindspore.Tensor([[1.0, 0.0]])))
    {'binary': True, 'mask': 'float32'}
    """
    for tensor in given:
        if isinstance(tensor, Parameter) or tensor.ndim < 2:
            continue
        array = widened(view(tensor))
        ones, zeros = int((array == 1).sum()), int((array == 0).sum())
        if ones and zeros and ones + zeros == array.size:
            return {"binary": True, "mask": dtype_name(tensor)}
    return {}


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
