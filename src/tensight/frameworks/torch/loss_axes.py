"""How a loss reads what it is given: along which axes, and as which kind of number. Read from the graph alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from tensight.frameworks.torch.graph import operator
from tensight.records.event import Value

_RESHAPES = frozenset({"view", "unsafe_view", "reshape", "reshape_alias", "flatten"})
_SAME_VALUES = _RESHAPES | {"clone", "to_copy", "alias", "contiguous", "squeeze", "unsqueeze", "transpose", "permute"}
_SAME_AXES = frozenset({"clone", "to_copy", "alias", "neg", "mul", "div"})  # scaled or copied, its axes as they were
_COPIES = frozenset({"clone", "to_copy", "alias"})
_RAW = frozenset({"addmm", "linear", "mkldnn_linear", "convolution", "mm", "bmm", "mkldnn_convolution"})
_MOST_CHOSEN = 1 << 20  # values of a mask that are looked at
_NEAR = 96  # nodes around a loss that are looked at


def near(root: torch.Tensor) -> Iterator[Any]:
    """Nodes of the graph around a loss, nearest first."""
    waiting: list[Any] = [root.grad_fn]
    seen: set[Any] = set()
    while waiting and len(seen) < _NEAR:
        node = waiting.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        waiting.extend(following for following, _ in node.next_functions)


def _before(node: Any, names: frozenset[str], most: int = 8) -> Any:
    """What made the values that a node gets, past operators with these names."""
    for _ in range(most):
        if node is None or operator(node).rstrip("_") not in names or not node.next_functions:
            return node
        node = node.next_functions[0][0]
    return node


def _signed(dim: Any, rank: int) -> int | None:
    if not isinstance(dim, int):
        return None
    dim = dim - (1 << 64) if dim >= 1 << 63 else dim  # stored without a sign
    return dim + rank if dim < 0 else dim


def rows_across(prediction: torch.Tensor, target: torch.Tensor | None) -> dict[str, Value]:
    """Whether the classes that a loss compares were cut out of a tensor across its axes.

    `(batch, classes, time)` seen as `(-1, classes)` makes rows of neighbouring times of one class, and `(batch, time,
    classes)` seen as `(batch, classes, time)` has each class where another time was. A view keeps an axis whole only
    where as many values follow it as before. It is certain where the targets are laid out as the tensor is without its
    class axis, or where a convolution made it.

    >>> made = torch.ones(2, 3, 8, requires_grad=True) * 1
    >>> rows_across(made.view(-1, 3), torch.zeros(2, 8).view(-1))
    {'rows_cut_from': '2x3x8', 'rows_cut_to': '16x3', 'class_axis': 1}
    >>> rows_across(made.transpose(1, 2).reshape(-1, 3), torch.zeros(2, 8).view(-1))
    {}
    >>> rows_across(made.mean(2, keepdim=True).flatten(1), torch.zeros(2))
    {}
    >>> made = torch.ones(2, 8, 3, requires_grad=True) * 1
    >>> rows_across(made.view(2, 3, 8), torch.zeros(2, 8)), rows_across(made.transpose(1, 2), torch.zeros(2, 8))
    ({'rows_cut_from': '2x8x3', 'rows_cut_to': '2x3x8', 'class_axis': 2}, {})
    """
    if prediction.dim() < 2 or prediction.grad_fn is None or target is None:
        return {}
    node, classes = _before(prediction.grad_fn, _COPIES), prediction.shape[1]
    if node is None or operator(node) not in _RESHAPES:
        return {}
    sizes = getattr(node, "_saved_self_sym_sizes", None) or getattr(node, "_saved_self_sizes", None)
    if not sizes or len(sizes) < 3:
        return {}
    shape = tuple(int(size) for size in sizes)
    if shape[1:].count(classes) != 1:
        return {}
    axis = 1 + shape[1:].index(classes)
    layout = shape[:axis] + shape[axis + 1 :]
    if math.prod(shape[axis + 1 :]) == math.prod(prediction.shape[2:]):
        return {}  # it is whole: a pooled prediction, for one, has a single place behind it
    given = [target] if target._base is None else [target, target._base]
    maker = node.next_functions[0][0]
    convolved = axis == 1 and maker is not None and "convolution" in operator(maker)
    if not convolved and all(tuple(one.shape) != layout for one in given):
        return {}
    cut_to = "x".join(map(str, prediction.shape))
    return {"rows_cut_from": "x".join(map(str, shape)), "rows_cut_to": cut_to, "class_axis": axis}


def picked_across(root: torch.Tensor) -> dict[str, Value]:
    """Whether probabilities are picked along another axis than the one they were normalised over.

    >>> logits, target = torch.zeros(4, 3, requires_grad=True), torch.zeros(4, 1, dtype=torch.long)
    >>> picked_across(-logits.log_softmax(0).gather(1, target).mean())
    {'normalised_by': 'log_softmax', 'normalised_dim': 0, 'picked_dim': 1}
    >>> picked_across(-logits.log_softmax(1).gather(1, target).mean())
    {}
    >>> right = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0]])
    >>> picked_across((logits.softmax(0) * right).sum()), picked_across((logits.softmax(1) * right).sum())
    ({'normalised_by': 'softmax', 'normalised_dim': 0, 'picked_dim': 1}, {})
    >>> picked_across((right * logits.softmax(0)).sum())["picked_dim"]
    1
    """
    for node in near(root):
        if operator(node) not in ("gather", "mul") or not node.next_functions:
            continue
        factor = "_saved_other"
        first = node.next_functions[0][0]
        if first is None and len(node.next_functions) > 1:  # what is multiplied comes second
            factor, first = "_saved_self", node.next_functions[1][0]
        made = _before(first, _SAME_AXES)
        name = "" if made is None else operator(made)
        if name == "log":  # log(softmax(x)) is as good
            made = _before(made.next_functions[0][0], _SAME_AXES)
            name = "" if made is None else operator(made)
        result = getattr(made, "_saved_result", None) if name in ("softmax", "log_softmax") else None
        if not isinstance(result, torch.Tensor):
            continue
        over = _signed(made._saved_dim, result.dim())
        if operator(node) == "gather":
            along = _signed(node._saved_dim, result.dim())
        else:
            along = _one_hot_along(getattr(node, factor, None), result.shape, over)
        if over is not None and along is not None and over != along:
            return {"normalised_by": name, "normalised_dim": over, "picked_dim": along}
    return {}


def _one_hot_along(chosen: Any, shape: torch.Size, over: int | None) -> int | None:
    """The axis along which one place is 1 and all others are 0, behind the first; None where it is no such tensor.

    >>> right = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0]])
    >>> _one_hot_along(right, right.shape, 0), _one_hot_along(torch.eye(3), torch.Size((3, 3)), 0)
    (1, None)
    """
    if not isinstance(chosen, torch.Tensor) or chosen.shape != shape or chosen.dim() < 2 or over is None:
        return None
    if chosen.numel() > _MOST_CHOSEN or chosen.requires_grad or not ((chosen == 0) | (chosen == 1)).all():
        return None
    along = [axis for axis in range(chosen.dim()) if bool((chosen.sum(axis) == 1).all())]
    return along[0] if len(along) == 1 and along[0] not in (0, over) else None


def normalised_twice(root: torch.Tensor) -> dict[str, Value]:
    """Whether probabilities were normalised once more, as if they were logits: over how many choices.

    >>> logits = torch.zeros(4, 3, requires_grad=True)
    >>> twice = torch.distributions.Categorical(logits=logits.softmax(1)).log_prob(torch.zeros(4)).mean()
    >>> normalised_twice(twice), normalised_twice(logits.softmax(1).log_softmax(1).mean())
    ({'normalised_twice': 3}, {'normalised_twice': 3})
    >>> once = torch.distributions.Categorical(logits=logits).log_prob(torch.zeros(4)).mean()
    >>> normalised_twice(once), normalised_twice(logits.softmax(0).log_softmax(1).mean())
    ({}, {})
    """
    for node in near(root):
        if operator(node) not in ("log_softmax", "logsumexp") or not node.next_functions:
            continue
        made = _before(node.next_functions[0][0], _COPIES)
        result = getattr(made, "_saved_result", None) if made is not None and operator(made) == "softmax" else None
        if not isinstance(result, torch.Tensor):
            continue
        dims = node._saved_dim if isinstance(node._saved_dim, (tuple, list)) else (node._saved_dim,)
        over = _signed(made._saved_dim, result.dim())
        if over is not None and [_signed(dim, result.dim()) for dim in dims] == [over]:
            return {"normalised_twice": result.shape[over]}
    return {}


def overlap_of_raw(root: torch.Tensor) -> dict[str, Value]:
    """Whether a loss is a ratio of overlap (Dice, IoU) of what a layer gave, which no sigmoid or softmax has bounded.

    >>> raw = torch.nn.Linear(3, 4)(torch.ones(2, 3))
    >>> mask = torch.tensor([[1.0, 0, 0, 1], [0, 1, 1, 0]])
    >>> dice = lambda p: 1 - 2 * (p * mask).sum() / (p.sum() + mask.sum())
    >>> overlap_of_raw(dice(raw))["overlap_of"], overlap_of_raw(dice(raw.sigmoid()))
    ('addmm', {})
    """
    for node in near(root):
        if operator(node) != "div" or len(node.next_functions) < 2:
            continue
        over, under = (following for following, _ in node.next_functions[:2])
        if over is None or under is None:
            continue
        sums = {made for part in _sums(under) if (made := _before(part, _SAME_VALUES)) is not None}
        for part in _sums(over):
            made = _raw_of_overlap(_before(part, _SAME_VALUES))
            if made is not None and made in sums and operator(made) in _RAW:
                return {"overlap_of": operator(made)}
    return {}


def _sums(node: Any, most: int = 24) -> Iterator[Any]:
    """What is summed in a few operators before a node."""
    waiting, seen = [node], 0
    while waiting and seen < most:
        one = waiting.pop(0)
        seen += 1
        if one is None:
            continue
        name = operator(one)
        if name in ("sum", "mean"):
            yield one.next_functions[0][0]
        elif name in ("add", "mul", "div", "sub", "clamp", "clamp_min") or name in _SAME_VALUES:
            waiting.extend(following for following, _ in one.next_functions)


def _raw_of_overlap(node: Any) -> Any:
    """What a mask of 0 and 1 was multiplied with; None when this is no such product."""
    if node is None or operator(node) != "mul":
        return None
    for index, saved in ((0, "_saved_other"), (1, "_saved_self")):
        mask = getattr(node, saved, None)
        if len(node.next_functions) <= index or not isinstance(mask, torch.Tensor) or mask.requires_grad:
            continue
        if mask.numel() and bool(((mask == 0) | (mask == 1)).all()):
            return _before(node.next_functions[index][0], _SAME_VALUES)
    return None
