"""How PyTorch and MindSpore call the same parameter.

A checkpoint holds names and shapes, not layers, so a rule looks at what stands together under one path: a `weight`
beside a `running_mean` is that of a batch norm. Where names and shapes leave a doubt the answer is marked unsure and
lists the alternatives; a checkpoint of the other side (`like`) settles it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

Shape = tuple[int, ...]
Siblings = Mapping[str, Shape]  # slot → shape, under one path


class Target(NamedTuple):
    """What a parameter is called on the other side. `name` is None where the other side has no such thing."""

    name: str | None
    shape: Shape
    rule: str = ""
    sure: bool = True


_EMBEDDING = re.compile(r"emb|wte|wpe|lut|token|vocab|position", re.IGNORECASE)
_NORM = re.compile(r"norm|^ln|ln\d*$|_ln|rms|bn\d*$", re.IGNORECASE)
_PRELU = re.compile(r"prelu", re.IGNORECASE)
_BATCH_NORM = {
    "weight": "gamma",
    "bias": "beta",
    "running_mean": "moving_mean",
    "running_var": "moving_variance",
}
_FROM_BATCH_NORM = {new: old for old, new in _BATCH_NORM.items()} | {"mean": "running_mean", "variance": "running_var"}


def groups(shapes: Mapping[str, Shape]) -> dict[str, dict[str, Shape]]:
    """Parameters by the path they stand under.

    >>> groups({"a.weight": (2, 3), "a.bias": (2,)})
    {'a': {'weight': (2, 3), 'bias': (2,)}}
    """
    found: dict[str, dict[str, Shape]] = {}
    for name, shape in shapes.items():
        path, _, slot = name.rpartition(".")
        found.setdefault(path, {})[slot] = shape
    return found


def to_mindspore(shapes: Mapping[str, Shape]) -> dict[str, list[Target]]:
    """For each PyTorch name what MindSpore calls it, the likeliest first.

    >>> to_mindspore({"ln.weight": (8,), "ln.bias": (8,)})["ln.weight"][0].name
    'ln.gamma'
    """
    grouped = groups(shapes)
    found = {}
    for path, slots in grouped.items():
        place = _encoder_layer(path, grouped, "linear", "dense")
        for slot, shape in slots.items():
            targets = _to_mindspore(place, slot, shape, slots)
            if place != path:
                targets = [t._replace(rule=t.rule or "transformer layer") for t in targets]
            found[_join(path, slot)] = targets
    return found


def to_torch(shapes: Mapping[str, Shape]) -> dict[str, list[Target]]:
    """For each MindSpore name what PyTorch calls it, the likeliest first.

    >>> to_torch({"bn.gamma": (8,), "bn.moving_mean": (8,)})["bn.moving_mean"][0].name
    'bn.running_mean'
    """
    grouped = groups(shapes)
    flat = [shape for name, shape in shapes.items() if name.endswith("weight") and len(shape) == 4]
    one_dimensional = any(s[3] > 1 for s in flat) and all(s[2] == 1 for s in flat)
    found = {}
    for path, slots in grouped.items():
        place = _encoder_layer(path, grouped, "dense", "linear")
        for slot, shape in slots.items():
            targets = _to_torch(place, slot, shape, slots, one_dimensional)
            if place != path:
                targets = [t._replace(rule=t.rule or "transformer layer") for t in targets]
            found[_join(path, slot)] = targets
    return found


def _join(path: str, slot: str) -> str:
    return f"{path}.{slot}" if path else slot


def _encoder_layer(path: str, grouped: Mapping[str, Siblings], old: str, new: str) -> str:
    """`linear1` of a transformer layer is `dense1` in MindSpore."""
    parent, _, last = path.rpartition(".")
    attention = _join(parent, "self_attn")
    if last in (f"{old}1", f"{old}2") and any(p == attention or p.startswith(attention + ".") for p in grouped):
        return _join(parent, last.replace(old, new))
    return path


def _to_mindspore(path: str, slot: str, shape: Shape, slots: Siblings) -> list[Target]:
    same = Target(_join(path, slot), shape)
    last = path.rpartition(".")[2]
    if slot == "num_batches_tracked":
        return [Target(None, shape, "MindSpore's batch norm counts no batches")]
    if "running_mean" in slots and slot in _BATCH_NORM:
        new = _BATCH_NORM[slot] if path or slot in ("weight", "bias") else _BATCH_NORM[slot].removeprefix("moving_")
        deep = Target(_join(_join(path, "bn2d"), _BATCH_NORM[slot]), shape, "BatchNorm3d")
        return [Target(_join(path, new), shape, "BatchNorm"), deep]
    norm = Target(_join(path, "gamma"), shape, "norm")
    prelu = Target(_join(path, "w" if path else "a"), shape, "PReLU")
    table = Target(_join(path, "embedding_table"), shape, "Embedding")
    if slot == "weight" and len(shape) == 1:
        if slots.get("bias") == shape:
            return [norm, same]
        if _PRELU.search(last) or shape == (1,):
            return [prelu, norm, same]
        return [norm._replace(sure=bool(_NORM.search(last))), prelu, same]
    if slot == "bias" and slots.get("weight") == shape and len(shape) == 1:
        return [Target(_join(path, "beta"), shape, "norm"), same]
    if slot == "weight" and len(shape) == 2 and "bias" not in slots:
        return [table, same] if _EMBEDDING.search(last) else [same, table]
    if slot == "weight" and len(shape) == 3:
        return [Target(same.name, (*shape[:2], 1, shape[2]), "Conv1d"), same]
    return [same]


def _to_torch(path: str, slot: str, shape: Shape, slots: Siblings, one_dimensional: bool) -> list[Target]:
    same = Target(_join(path, slot), shape)
    parent, _, last = path.rpartition(".")
    if last == "bn2d" and slot in _FROM_BATCH_NORM:
        return [Target(_join(parent, _FROM_BATCH_NORM[slot]), shape, "BatchNorm3d")]
    if slot in ("moving_mean", "moving_variance") or (slot in ("mean", "variance") and "gamma" in slots):
        return [Target(_join(path, _FROM_BATCH_NORM[slot]), shape, "BatchNorm")]
    if slot in ("gamma", "beta"):
        rule = "BatchNorm" if "moving_mean" in slots or "mean" in slots else "norm"
        return [Target(_join(path, _FROM_BATCH_NORM[slot]), shape, rule)]
    weight = Target(_join(path, "weight"), shape)
    if slot == "embedding_table":
        return [weight._replace(rule="Embedding")]
    if slot in ("w", "a") and len(shape) == 1 and len(slots) == 1:
        return [weight._replace(rule="PReLU"), same]
    if slot == "weight" and len(shape) == 4 and shape[2] == 1:
        line = Target(same.name, (*shape[:2], shape[3]), "Conv1d", shape[3] > 1)
        return [line, same] if one_dimensional else [same._replace(sure=shape[3] == 1), line]
    return [same]
