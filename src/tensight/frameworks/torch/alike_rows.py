"""Predictions that are the same for all samples of a batch, since something was averaged over the batch itself."""

from __future__ import annotations

from typing import Any

import torch

from tensight.frameworks.torch.graph import dims_of, operator
from tensight.records.event import Value

_FEWEST = 8  # samples
_MOST = 1 << 20  # values
_MOST_NODES = 400
_REDUCE = frozenset({"mean", "sum", "amax", "amin", "logsumexp"})


def alike_rows(prediction: torch.Tensor) -> dict[str, Value]:
    """The operator that ran over the samples on the way to a prediction whose rows are all the same; else nothing.

    >>> h = torch.rand(16, 5, 3, requires_grad=True)
    >>> alike_rows(h.mean(0, keepdim=True).expand(16, 5, 3)[:, 0] * 2)
    {'alike_by': 'mean'}
    >>> alike_rows(h.mean(1)), alike_rows(torch.zeros(16, 3) * h.mean(1))
    ({}, {})
    """
    size = prediction.shape[0] if prediction.dim() else 0
    if size < _FEWEST or prediction.numel() > _MOST or not prediction.is_cpu or prediction.grad_fn is None:
        return {}
    with torch.no_grad():
        if not torch.equal(prediction, prediction[:1].expand_as(prediction)):
            return {}
    waiting: list[Any] = [prediction.grad_fn]
    seen: set[Any] = set()
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        if operator(node) in _REDUCE and _over_first(node, size):
            return {"alike_by": operator(node)}
        waiting.extend(before for before, _ in node.next_functions)
    return {}


def _over_first(node: Any, size: int) -> bool:
    """Whether an operator reduces the first of several axes, which is so long."""
    saved = getattr(node, "_saved_self_sym_sizes", None)
    sizes = saved if saved is not None else getattr(getattr(node, "_saved_self", None), "shape", None)
    if not sizes or len(sizes) < 2 or sizes[0] != size:
        return False
    return 0 in dims_of(node, len(sizes))
