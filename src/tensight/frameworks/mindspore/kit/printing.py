"""`tensight.print` inside MindSpore's graphs: the compiler is told which function stands for it."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from mindspore import Parameter, Tensor, ops

SLOTS = 64
# How often each print with `every` was run: a graph has no other memory. One slot for each text and distance.
counts = Parameter(Tensor(np.zeros(SLOTS, np.int32)), name="tensight_print_counts", requires_grad=False)


def install(function: Callable[..., None], show: Callable[..., None]) -> None:
    """Let MindSpore's graph compiler translate `function`, as it does with Python's own print."""
    for name in ("mindspore.graph._parse.resources", "mindspore._extends.parse.resources"):
        module = sys.modules.get(name)
        if module is not None:
            table: dict[Any, Any] = module.convert_object_map
            table[function] = in_graph
            return
    raise RuntimeError("this version of MindSpore has no table of functions that Tensight knows")


@ops.constexpr
def slot_of(text: str, every: int) -> int:
    return zlib.crc32(f"{every} {text}".encode()) % SLOTS


@ops.constexpr
def mark_of(slot: int) -> Tensor:
    return Tensor(np.arange(SLOTS) == slot).astype("int32")


def in_graph(*values, **options):  # is compiled, and so has no types; the compiler knows no keyword-only arguments
    every = options.get("every", 1)
    if every > 1:
        text = values[0] if isinstance(values[0], str) else ""
        slot = slot_of(text, every)
        if counts[slot] % every == 0:
            ops.print_(*values)
        ops.assign_add(counts, mark_of(slot))
    else:
        ops.print_(*values)
