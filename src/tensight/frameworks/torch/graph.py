"""Reading the autograd graph: which leaves it reaches, and which operator made a tensor."""

from __future__ import annotations

from typing import Any

import torch

_MOST_NODES = 50_000


def leaves(root: torch.Tensor) -> list[torch.Tensor]:
    """Tensors whose gradient a backward pass from `root` accumulates."""
    found, seen = [], set()
    waiting = [root.grad_fn]
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            found.append(variable)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                waiting.append(following)
    return found


def operator(node: Any) -> str:
    """
    >>> operator(torch.ones(1, requires_grad=True).exp().grad_fn)
    'exp'
    """
    name = type(node).__name__.rstrip("0123456789").removesuffix("Backward")
    return "".join(("_" + c.lower()) if c.isupper() and i else c.lower() for i, c in enumerate(name)).replace("__", "_")
