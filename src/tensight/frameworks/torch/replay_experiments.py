"""The guilty operator once more with its real inputs, changed in one respect: what the change does is evidence."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from tensight.frameworks.rewinds import Seen
from tensight.frameworks.torch.origin_facts import finite

_SMALL = 1e-8
_HALVES = (torch.float16, torch.bfloat16)

Change = Callable[[torch.Tensor], torch.Tensor]


def trials(seen: Seen) -> dict[str, Callable[[], str]]:
    """What can be tried, by name; each answers 'finite' or 'not finite'. Empty when the fault does not show alone."""
    replay = seen.replay
    given = _inputs(seen)
    if not given or replay.phase not in ("forward", "backward"):
        return {}
    try:
        if _finite(seen, given, lambda tensor: tensor):
            return {}
    except Exception:
        return {}  # an operator that cannot be called by itself
    tried: dict[str, Change] = {"in float64": torch.Tensor.double}
    if any(tensor.dtype in _HALVES for tensor in given):
        tried["in float32"] = torch.Tensor.float
    if any(bool((tensor == 0).any()) for tensor in given if tensor.is_floating_point()):
        tried[f"with {_SMALL:g} in place of 0"] = _no_zeros
    if any(bool((tensor < 0).any()) for tensor in given if tensor.is_floating_point()):
        tried["with negative inputs as 0"] = _no_negatives
    tried["with inputs a tenth as large"] = _smaller

    def run(change: Change) -> Callable[[], str]:
        return lambda: "finite" if _finite(seen, given, change) else "not finite"

    return {name: run(change) for name, change in tried.items()}


def _no_zeros(tensor: torch.Tensor) -> torch.Tensor:
    return torch.where(tensor == 0, torch.full_like(tensor, max(_SMALL, torch.finfo(tensor.dtype).tiny)), tensor)


def _no_negatives(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clamp_min(0)


def _smaller(tensor: torch.Tensor) -> torch.Tensor:
    return tensor / 10


def _inputs(seen: Seen) -> list[torch.Tensor]:
    facts = seen.replay.facts
    found = []
    for name in sorted((key for key in seen.values if key.startswith("input.")), key=lambda key: int(key[6:])):
        tensor = torch.from_numpy(seen.values[name].copy())
        dtype = getattr(torch, str(facts.get(f"in.{name[6:]}.dtype")), None)
        found.append(tensor.to(dtype) if isinstance(dtype, torch.dtype) else tensor)
    return found


def _finite(seen: Seen, given: list[torch.Tensor], change: Change) -> bool:
    """Whether the operator, and for a backward pass its gradient, is finite."""
    backward = seen.replay.phase == "backward"
    with torch.set_grad_enabled(backward):
        inputs = [change(tensor).detach() if tensor.is_floating_point() else tensor for tensor in given]
        leaves = [tensor.requires_grad_() for tensor in inputs if backward and tensor.is_floating_point()]
        result = _call(seen, inputs)
        results = [one for one in (result if isinstance(result, (tuple, list)) else [result]) if torch.is_tensor(one)]
        if not backward:
            return all(finite(one) for one in results)
        first = results[0]
        stored = seen.values.get("backward.0")
        wanted = torch.ones_like(first)
        if stored is not None and tuple(stored.shape) == tuple(first.shape):
            wanted = torch.from_numpy(stored.copy()).to(first.dtype)
        gradients = torch.autograd.grad(first, leaves, wanted, allow_unused=True)
        return all(finite(one) for one in gradients if one is not None)


def _call(seen: Seen, inputs: list[torch.Tensor]) -> Any:
    """Plain arguments as they were, tensors in the places between."""
    namespace, _, name = seen.replay.operator.partition(".")
    facts = seen.replay.facts
    plain = {int(key[4:]): value for key, value in facts.items() if re.fullmatch(r"arg\.\d+", key)}
    waiting = list(inputs)
    arguments = []
    for position in range(len(inputs) + len(plain)):
        if position in plain:
            arguments.append(_value(plain[position]))
        elif waiting:
            arguments.append(waiting.pop(0))
    named = {key[4:]: _value(value) for key, value in facts.items() if re.fullmatch(r"arg\.[a-z_]\w*", key)}
    return getattr(getattr(torch.ops, namespace), name)(*arguments, *waiting, **named)


def _value(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"-?\d+(,-?\d+)*", value):
        return [int(one) for one in value.split(",")]
    return value
