"""Targets that are made from the network's own answers: rewards plus a share of what it says of the next state."""

from __future__ import annotations

from typing import Any

import torch

from tensight.frameworks.torch.graph import leaves, operator

_MOST_STEPS = 24  # operators from the target to the network's answer
_MOST_NODES = 20_000
_PASSES_ON = frozenset(
    {
        *("view", "unsafe_view", "reshape", "reshape_alias", "squeeze", "unsqueeze", "expand", "clone", "to_copy"),
        *("alias", "select", "slice", "index", "transpose", "t", "permute"),
    }
)
_CHOOSES = frozenset({"max", "amax", "gather", "min", "amin", "minimum"})  # of several actions, or of two critics


def bootstraps(prediction: torch.Tensor, target: torch.Tensor) -> bool:
    """Whether a target with a graph is data plus a share of what the network that predicts says of another input.

    Only that: what minimises the residual of an equation has several terms, or one pass of the network on both sides.

    >>> net = torch.nn.Linear(4, 2)
    >>> here, there, done = net(torch.ones(3, 4)), net(torch.zeros(3, 4)), torch.tensor([0.0, 0.0, 1.0])
    >>> value, target = here[:, 0], torch.ones(3) + 0.9 * (1 - done) * there.max(1).values
    >>> bootstraps(value, target), bootstraps(value, target.detach()), bootstraps(value, there[:, 0])
    (True, False, False)
    """
    node = target.grad_fn
    added = scaled = chosen = False
    for _ in range(_MOST_STEPS):
        if node is None:
            return False
        name = operator(node).rstrip("_")
        following = [one for one, _ in node.next_functions if one is not None]
        alone = len(following) == 1
        if name in ("add", "sub") and alone and len(node.next_functions) == 2:
            added = True
        elif name == "mul" and alone and len(node.next_functions) == 2:
            scaled = True
            chosen = chosen or _ends(node)
        elif name in _CHOOSES:
            chosen = True
            if not alone:
                break
        elif name not in _PASSES_ON or not alone:
            break
        node = following[0]
    if not (added and scaled and chosen) or prediction.grad_fn is None:
        return False
    trained = {id(one) for one in leaves(prediction)}
    mine = {id(one) for one in leaves(target)}
    return bool(mine) and mine <= trained and not _meet(prediction.grad_fn, target.grad_fn)


def _ends(node: Any) -> bool:
    """Whether a product is by a discount that is zero for some samples: nothing comes behind their last step."""
    for name in ("_saved_other", "_saved_self"):
        factor = getattr(node, name, None)
        if isinstance(factor, torch.Tensor) and factor.numel() > 1 and factor.is_cpu and not factor.requires_grad:
            with torch.no_grad():
                most, rest = float(factor.max()), factor[factor != 0]
                return 0 < most <= 1 and 0 < rest.numel() < factor.numel() and bool((rest == most).all())
    return False


def _meet(one: Any, other: Any) -> bool:
    """Whether two graphs share an operator: then they are one pass of the network."""
    return not _operators(one).isdisjoint(_operators(other))


def _operators(root: Any) -> set[Any]:
    found: set[Any] = set()
    waiting = [root]
    while waiting and len(found) < _MOST_NODES:
        node = waiting.pop()
        if node is None or node in found or hasattr(node, "variable"):
            continue
        found.add(node)
        # a transposed weight is no pass: `t` of a leaf may be shared by both
        waiting += [following for following, _ in node.next_functions]
    return {node for node in found if len(node.next_functions) > 1}
