"""Matrix products inside functions with a backward written by hand: what autograd would give for them is known.

A function is taken for a product only when its result is one, value by value: a product with rounded or masked weights
is another function, whose backward may be meant as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tensight.frameworks.adapter import Array
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import to_numpy

_MOST = 1 << 18  # values of each tensor
_ROWS = 16  # of the result that are compared
_EXACT = 1e-3  # of the largest value
_ALONG = 0.5  # cosine of what came and what is right: a gradient that is thinned out or scaled on purpose keeps more


@dataclass(frozen=True, slots=True)
class Product:
    """x @ w, or x @ w.T, perhaps with a bias, and which arguments these are."""

    x: Array
    w: Array
    turned: bool
    places: tuple[int, int, int | None]

    def gradients(self, came: Array) -> dict[int, Array]:
        """What each argument's gradient is, flat, from that of the result."""
        x_at, w_at, bias_at = self.places
        to_x = came @ self.w if self.turned else came @ self.w.T
        to_w = came.T @ self.x if self.turned else self.x.T @ came
        found = {x_at: to_x.ravel(), w_at: to_w.ravel()}
        return found if bias_at is None else found | {bias_at: came.sum(0)}


def product_of(tensors: list[torch.Tensor], result: torch.Tensor) -> Product | None:
    """The product that a result is; None where it is none.

    >>> x, w = torch.randn(5, 3), torch.randn(4, 3)
    >>> product_of([x, w], x @ w.T).places, product_of([x, w], (x @ w.T).relu())
    ((0, 1, None), None)
    """
    if not 2 <= len(tensors) <= 3 or any(type(one) not in PLAIN or one.numel() > _MOST for one in [*tensors, result]):
        return None
    for x_at, x in enumerate(tensors):
        for w_at, w in enumerate(tensors):
            if x_at == w_at or x.dim() < 2 or w.dim() != 2 or x.dtype != w.dtype or x.dtype != result.dtype:
                continue
            rest = [at for at in range(len(tensors)) if at not in (x_at, w_at)]
            for turned in (True, False):
                into, out = (w.shape[1], w.shape[0]) if turned else (w.shape[0], w.shape[1])
                if x.shape[-1] != into or result.shape != (*x.shape[:-1], out):
                    continue
                bias = tensors[rest[0]] if rest else None
                if bias is not None and bias.shape != (out,):
                    continue
                product = Product(_rows(x), _flat(w).reshape(w.shape), turned, (x_at, w_at, rest[0] if rest else None))
                if _is(product, _rows(result), None if bias is None else _flat(bias)):
                    return product
    return None


def _flat(tensor: torch.Tensor) -> Array:
    return to_numpy(tensor.detach().reshape(-1)).astype(np.float64)


def _rows(tensor: torch.Tensor) -> Array:
    return _flat(tensor).reshape(-1, tensor.shape[-1])


def _is(product: Product, result: Array, bias: Array | None) -> bool:
    few = product.x[:_ROWS]
    made = few @ (product.w.T if product.turned else product.w)
    made = made if bias is None else made + bias
    size = float(np.abs(made).max()) if made.size else 0.0
    return bool(size > 0 and np.abs(made - result[:_ROWS]).max() <= _EXACT * size)


def wrong_gradient(product: Product, inputs: tuple, came: torch.Tensor) -> tuple[int, float, float] | None:
    """The argument whose gradient points elsewhere than it must: its place, by how much it differs, share turned round.

    >>> x, w, came = torch.randn(50, 3), torch.randn(3, 3), torch.randn(50, 3)
    >>> product = product_of([x, w], x @ w)
    >>> wrong_gradient(product, (came @ w.T, x.T @ came), came) is None
    True
    >>> [round(one) for one in wrong_gradient(product, (came @ w.T, -x.T @ came), came)]
    [1, 2, 1]
    """
    worst: tuple[int, float, float] | None = None
    for place, right in product.gradients(_rows(came)).items():
        back = inputs[place]
        if back is None or back.numel() != right.size:
            continue
        got = _flat(back)
        sizes = float(np.linalg.norm(got) * np.linalg.norm(right))
        if not np.isfinite(sizes) or not sizes or float(got @ right) >= _ALONG * sizes:
            continue
        differs = float(np.linalg.norm(got - right) / np.linalg.norm(right))
        opposite = float(np.abs(right)[got * right < 0].sum() / np.abs(right).sum())
        if worst is None or differs > worst[1]:
            worst = (place, differs, opposite)
    return worst
