"""Which of several token sequences the keys of an attention come from: one may look at all of another sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tensight.frameworks.torch.graph import operator

_MOST_NODES = 4_000
_MOST_STEPS = 12
_PRODUCTS = frozenset({"bmm", "mm", "baddbmm", "matmul"})


def key_node(weights: torch.Tensor) -> Any:
    """The node that gave the keys of a softmax over products of queries and keys; None when there is none.

    >>> q, k = torch.ones(2, 3, 4, requires_grad=True) * 1, torch.ones(2, 3, 4, requires_grad=True).exp()
    >>> operator(key_node((torch.bmm(q, k.transpose(1, 2)) / 2).softmax(-1)))
    'transpose'
    """
    node = weights.grad_fn
    for _ in range(_MOST_STEPS):
        if node is None or not node.next_functions:
            return None
        if operator(node) in _PRODUCTS:
            return node.next_functions[-1][0]
        node = next((before for before, _ in node.next_functions if before is not None), None)
    return None


def tokens_behind(node: Any, tokens: Sequence[torch.Tensor]) -> str:
    """The places of those tokens whose embeddings a node depends on, as text.

    >>> table = torch.nn.Embedding(9, 2)
    >>> first, second = torch.arange(8).reshape(2, 4), torch.ones(2, 4, dtype=torch.long)
    >>> tokens_behind((table(second) * 2).grad_fn, [first, second])
    '1'
    """
    found: set[int] = set()
    waiting: list[Any] = [node]
    seen: set[Any] = set()
    while waiting and len(seen) < _MOST_NODES:
        one = waiting.pop()
        if one is None or one in seen:
            continue
        seen.add(one)
        indices = getattr(one, "_saved_indices", None) if operator(one) == "embedding" else None
        if isinstance(indices, torch.Tensor):
            found.update(
                place
                for place, fed in enumerate(tokens)
                if fed.numel() == indices.numel() and bool((fed.reshape(-1) == indices.reshape(-1)).all())
            )
        waiting.extend(before for before, _ in one.next_functions)
    return ",".join(str(place) for place in sorted(found))
