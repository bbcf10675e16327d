"""Reading the autograd graph: which leaves it reaches, and which operator made a tensor."""

from __future__ import annotations

from typing import Any

import torch

_MOST_NODES = 50_000


def leaves(root: torch.Tensor) -> list[torch.Tensor]:
    """Tensors whose gradient a backward pass from `root` accumulates."""
    found: list[torch.Tensor] = []
    seen: set[Any] = set()
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


def dims_of(node: Any, rank: int) -> set[int]:
    """The dimensions that an operator ran over, counted from the first; autograd stores them without a sign.

    >>> sorted(dims_of(torch.ones(2, 3, 4, requires_grad=True).sum((0, -1)).grad_fn, 3))
    [0, 2]
    """
    dims = getattr(node, "_saved_dim", None)
    if dims is None:
        return set()
    signed = (
        dim - (1 << 64) if dim >= 1 << 63 else dim for dim in (dims if isinstance(dims, (tuple, list)) else (dims,))
    )
    return {dim % rank for dim in signed if -rank <= dim < rank}


# what only changes the shape or place of values, not the values
_TRANSPARENT = frozenset(
    {
        *("view", "unsafe_view", "reshape", "reshape_alias", "squeeze", "unsqueeze", "transpose", "permute", "t"),
        *("clone", "to_copy", "alias", "expand", "contiguous", "flatten", "select", "slice", "as_strided"),
    }
)
_NORMALISERS = frozenset({"softmax", "log_softmax", "sigmoid", "log_sigmoid", "tanh", "relu", "log", "exp", "clamp"})
_MOST_STEPS = 6


def made_by(tensor: torch.Tensor) -> tuple[str, int | None]:
    """The operator that gave a tensor its values, as far as it matters for a loss, and the dimension it ran over.

    >>> made_by(torch.ones(2, 3, requires_grad=True).softmax(-1).view(6))
    ('softmax', 1)
    """
    node = tensor.grad_fn
    for _ in range(_MOST_STEPS):
        if node is None:
            return "", None
        name = operator(node)
        if name in _NORMALISERS:
            dim = getattr(node, "_saved_dim", None)
            if isinstance(dim, int):
                result = getattr(node, "_saved_result", None)
                rank = result.dim() if isinstance(result, torch.Tensor) else None
                if dim >= 1 << 63:
                    dim -= 1 << 64  # negative, as it was stored without a sign
                if dim < 0 and rank:
                    dim += rank
                return name, dim
            return name, None
        if name.rstrip("_") not in _TRANSPARENT or not node.next_functions:
            return "", None
        node = node.next_functions[0][0]
    return "", None


def expression(root: torch.Tensor) -> tuple[list[str], set[int]]:
    """Operators near the root, nearest first, and the sequence numbers of the differences among them."""
    names: list[str] = []
    numbers: set[int] = set()
    waiting: list[Any] = [root.grad_fn]
    seen: set[Any] = set()
    while waiting and len(seen) < 64:
        node = waiting.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        name = operator(node)
        if name == "accumulate_grad":
            continue
        if name in ("sub", "rsub"):
            numbers.add(node._sequence_nr())
        if len(names) < 12:
            names.append(name)
        waiting.extend(following for following, _ in node.next_functions)
    return names, numbers


# what is done to each value alone, or to all in the end: a matrix of all pairs that is meant goes through other things
_EACH_ALONE = frozenset(
    {
        *("mean", "sum", "neg", "add", "sub", "rsub", "div", "mul", "relu", "clamp", "clamp_min", "clamp_max"),
        *("softplus", "log_sigmoid", "minimum", "squeeze", "view", "pow"),
    }
)


def grown_product(root: torch.Tensor) -> tuple[torch.Size, torch.Size, torch.Size] | None:
    """A product near a loss that is larger than its factors: the shapes of what was made, of what was given, and its.

    >>> made, given = torch.ones(5, 1, requires_grad=True), torch.ones(5)
    >>> [tuple(shape) for shape in grown_product(torch.relu(1 - given * made).mean())]
    [(5, 1), (5,), (5, 5)]
    >>> grown_product((given * made.squeeze(1)).mean()), grown_product((given * made).softmax(1).sum())
    (None, None)
    """
    waiting: list[Any] = [root.grad_fn]
    seen: set[Any] = set()
    while waiting and len(seen) < 32:
        node = waiting.pop(0)
        if node is None or node in seen or operator(node) not in _EACH_ALONE:
            continue
        seen.add(node)
        if operator(node) != "mul":
            waiting.extend(following for following, _ in node.next_functions)
            continue
        sides = [side for index in range(len(node.next_functions)) if (side := _side(node, index)) is not None]
        if len(sides) != 2:
            continue
        result = torch.broadcast_shapes(*sides)
        constants = [shape for (following, _), shape in zip(node.next_functions, sides) if following is None]
        if len(constants) == 1 and len(constants[0]):
            made = sides[1] if node.next_functions[0][0] is None else sides[0]
            if result.numel() > max(made.numel(), constants[0].numel()):
                return made, constants[0], result
            continue  # a mask or a weight: what is chosen so among pairs is meant
        waiting.extend(following for following, _ in node.next_functions)
    return None


def _side(node: Any, index: int) -> torch.Size | None:
    """The shape of one factor of a product; a number has none of its own. None where the graph does not tell."""
    following, place = node.next_functions[index]
    try:
        if following is not None:
            return torch.Size(following._input_metadata[place].shape)
        saved = getattr(node, "_saved_self" if index == 0 else "_saved_other", None)
    except (AttributeError, RuntimeError):  # another version of torch, or a factor that was changed in place
        return None
    return saved.shape if isinstance(saved, torch.Tensor) else torch.Size()
