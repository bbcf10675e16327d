"""Tensors inside whatever a module was given or returned."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import torch

_MOST = 64
_DEEPEST = 4


def tensors(value: object, place: str) -> list[tuple[str, torch.Tensor]]:
    """Each tensor in a nested value, with its place: 'output.0', 'output.0.1', 'output.logits'.

    Tuples, lists, mappings, dataclasses, and the attributes of other objects, one level of them.

    >>> [place for place, _ in tensors((torch.ones(1), {"a": torch.ones(1)}), "output")]
    ['output.0', 'output.1.a']
    """
    if isinstance(value, torch.Tensor):
        return [(place + ".0", value)]
    found: list[tuple[str, torch.Tensor]] = []
    for name, tensor in _walk(value, place, 0, True):
        found.append((name, tensor))
        if len(found) == _MOST:
            break
    return found


def _walk(value: object, place: str, depth: int, objects: bool) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield place, value
        return
    if depth == _DEEPEST or value is None or isinstance(value, (str, bytes, int, float, bool, torch.nn.Module)):
        return
    if isinstance(value, Mapping):
        inner = [(str(key), part) for key, part in value.items()]
    elif isinstance(value, (list, tuple)):
        inner = [(str(index), part) for index, part in enumerate(value[: _MOST + 1])]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = [(field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)]
    elif objects and not isinstance(value, type):
        # objects of unknown classes may refer to anything: look at their own attributes only
        inner, objects = list(getattr(value, "__dict__", {}).items()), False
        depth = max(depth, _DEEPEST - 2)
    else:
        return
    for name, part in inner:
        yield from _walk(part, f"{place}.{name}", depth + 1, objects)
