"""What weights over the first dimension are used for: to sum that dimension up, as a set does, or to keep it."""

from __future__ import annotations

from typing import Any

import torch

from tensight.frameworks.torch.graph import dims_of, operator

_MOST_NODES = 20_000
_MOST_STEPS = 24  # operators after the weights
_HANDED_ON = frozenset(
    {
        *("mul", "div", "neg", "clone", "to_copy", "alias", "native_dropout", "dropout", "contiguous", "select"),
        *("view", "unsafe_view", "reshape", "reshape_alias", "squeeze", "unsqueeze", "expand", "t", "transpose"),
        *("permute", "unbind", "split", "chunk", "slice", "mul_", "div_"),
    }
)


def is_pooled(root: torch.Tensor, made: Any, size: int) -> bool | None:
    """Whether weights that the node `made` gave are summed over a dimension of this size on their way to the root.

    None where they are not on the way to it: another loss may use them.

    >>> h = torch.ones(6, 3, requires_grad=True) * 1
    >>> weights = (h @ torch.ones(3, 2)).softmax(0)
    >>> is_pooled((weights.T @ h).sum(), weights.grad_fn, 6)
    True
    >>> is_pooled((weights.unsqueeze(-1) * h.unsqueeze(1)).sum(0).sum(), weights.grad_fn, 6)
    True
    >>> is_pooled((weights.unsqueeze(-1) * h.unsqueeze(1)).sum(1).mean(), weights.grad_fn, 6)
    False
    >>> is_pooled(h.sum(), weights.grad_fn, 6) is None
    True
    """
    readers = _readers(root)
    if made not in readers:
        return None
    waiting, seen = [made], {made}
    while waiting and len(seen) < _MOST_STEPS * 4:
        for reader in readers.get(waiting.pop(0), ()):
            if reader in seen:
                continue
            seen.add(reader)
            if size in _summed(reader):
                return True
            if operator(reader) in _HANDED_ON:
                waiting.append(reader)
    return False


def _readers(root: torch.Tensor) -> dict[Any, list[Any]]:
    """Node → those that got what it gave."""
    found: dict[Any, list[Any]] = {}
    waiting: list[Any] = [root.grad_fn]
    seen: set[Any] = set()
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for before, _ in node.next_functions:
            if before is not None:
                found.setdefault(before, []).append(node)
                waiting.append(before)
    return found


def _summed(node: Any) -> set[int]:
    """Sizes of the dimensions that an operator sums over."""
    name = operator(node)
    if name in ("sum", "mean"):
        sizes = getattr(node, "_saved_self_sym_sizes", None)
        return {int(sizes[dim]) for dim in dims_of(node, len(sizes))} if sizes else set()
    if name == "mm":
        sizes = getattr(node, "_saved_self_sym_sizes", None)
        return {int(sizes[-1])} if sizes else set()
    if name in ("bmm", "mv"):
        left, right = getattr(node, "_saved_self", None), getattr(node, "_saved_mat2", None)
        if isinstance(left, torch.Tensor):
            return {left.shape[-1]}
        return {right.shape[1]} if isinstance(right, torch.Tensor) else set()
    return set()
