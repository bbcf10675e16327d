"""Networks that guide a training without being trained: whether their weights stay as they are."""

from __future__ import annotations

import torch

from tensight.frameworks.torch.networks import Model
from tensight.frameworks.torch.shards import local
from tensight.frameworks.torch.statistics import dtype_name
from tensight.records.event import Value

_SAMPLE = 4096  # values of one weight
_MOST = 24  # marks of a network: more say nothing new
_FIRST = 8  # steps between two marks at first, then more and more: each waits for the device


def mark(model: Model, step: int) -> dict[str, Value]:
    """A few facts about a network that needs no gradients: one of its weights, how often it was written in place, its
    mean magnitude, and the share of its values that are as they were at the mark before.

    Nothing is said of a network that is trained, nor in the steps between two marks.
    """
    if step < model.next_mark or model.marks >= _MOST:
        return {}
    chosen = None  # the last weight: the first may be a table of which most is never used
    for held in model.parameters:
        tensor = held.ref()
        if tensor is None or tensor.requires_grad or held.optimizer:
            model.next_mark = step + _FIRST
            return {}
        if tensor.dim() >= 2 and tensor.layout is torch.strided and tensor.device.type != "meta":
            chosen = (held.name, tensor)
    if chosen is None:
        return {}
    model.marks += 1
    model.next_mark = step + _FIRST * model.marks
    name, tensor = chosen
    with torch.no_grad():
        sample = local(tensor).detach().reshape(-1)[:_SAMPLE].to("cpu", copy=True)
        before = sample if model.marked is None or model.marked.shape != sample.shape else model.marked
        unchanged = float((before == sample).double().mean())
        size = float(sample.double().abs().mean())
        model.marked = sample
    written = -1 if tensor.is_inference() else tensor._version
    return {
        "frozen": name,
        "unchanged": unchanged,
        "written": written,
        "size": size,
        "dtype": dtype_name(tensor.dtype),
    }
