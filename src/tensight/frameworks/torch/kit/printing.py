"""`tensight.print` inside `torch.compile`: an operator with an effect, so that the graph is not broken."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op

compiling = torch.compiler.is_dynamo_compiling
show: Callable[..., None] | None = None  # set by the kit
_TENSOR = "\x00"  # stands in the text where a tensor is printed
_BETWEEN = "\x01"


@torch.library.custom_op("tensight::print", mutates_args=())
def _print(words: str, tensors: list[torch.Tensor], every: int) -> None:
    if show is not None:
        waiting = list(tensors)
        values = tuple(waiting.pop(0) if word == _TENSOR else word for word in words.split(_BETWEEN))
        show(values, every, "compiled", 1, ("<compiled>", zlib.crc32(words.encode())))


@_print.register_fake
def _(words, tensors, every):
    return None


_register_effectful_op("tensight::print", _EffectType.ORDERED)


def compiled(values: tuple[Any, ...], every: int) -> None:
    """What the graph compiler sees in place of the call."""
    words = _BETWEEN.join([_TENSOR if isinstance(value, torch.Tensor) else str(value) for value in values])
    tensors = [value.detach() for value in values if isinstance(value, torch.Tensor)]
    torch.ops.tensight.print(words, tensors, every)
