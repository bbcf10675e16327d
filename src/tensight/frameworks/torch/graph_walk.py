"""Looking for the first bad operator in what autograd has saved: for trainings that cannot be copied.

When a loss is not finite at `backward()`, its graph is still there. Each node holds some of what its operator was given
or gave. The first operator in order of execution with finite inputs and a bad result is the origin. What saves nothing
cannot be seen, and no line is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from tensight.frameworks.facts import Fact, words
from tensight.frameworks.rewinds import Seen
from tensight.frameworks.torch import origin_facts as facts
from tensight.frameworks.torch.replay_look import as_numpy
from tensight.records import Replay

_MOST_NODES = 50_000
_RESULTS = ("_saved_result", "_saved_output", "_saved_out")
# Operators that save what they were given and not what they gave: it is worked out again.
_AGAIN: dict[str, Callable[..., torch.Tensor]] = {
    "Log": torch.log,
    "Log2": torch.log2,
    "Log10": torch.log10,
    "Log1p": torch.log1p,
    "Acos": torch.acos,
    "Asin": torch.asin,
    "Atanh": torch.atanh,
    "Acosh": torch.acosh,
    "Pow": torch.pow,
    "Div": torch.div,
    "Mul": torch.mul,
}


def walk(loss: torch.Tensor) -> Seen | None:
    """The first operator in the graph of a loss that made a bad value of finite ones, as far as saved values tell."""
    with torch.no_grad():
        for node in _in_order(loss):
            name = node.name().rpartition("::")[2].partition("Backward")[0]
            inputs, result = _saved(node, name)
            if result is None or not inputs or facts.finite(result):
                continue
            if all(facts.finite(tensor) for tensor in inputs if facts.is_float(tensor)):
                return _seen(name, node, inputs, result)
    return None


def _in_order(loss: torch.Tensor) -> list[Any]:
    """The nodes of a graph in the order in which their operators ran."""
    found: dict[Any, int] = {}
    waiting = [loss.grad_fn]
    while waiting and len(found) < _MOST_NODES:
        node = waiting.pop()
        if node is None or node in found:
            continue
        found[node] = node._sequence_nr()
        waiting.extend(following for following, _ in node.next_functions)
    return [node for node in sorted(found, key=found.__getitem__) if found[node] < 2**63]


def _saved(node: Any, name: str) -> tuple[list[torch.Tensor], torch.Tensor | None]:
    inputs: list[torch.Tensor] = []
    result = None
    scalars = []
    for attribute in sorted(dir(node), key=lambda text: (text != "_saved_self", text)):
        if not attribute.startswith("_saved_"):
            continue
        try:
            value = getattr(node, attribute)
        except RuntimeError:
            continue  # freed, or changed in place since
        if isinstance(value, torch.Tensor):
            if attribute in _RESULTS:
                result = value
            else:
                inputs.append(value)
        elif attribute == "_saved_exponent":
            scalars.append(value)
    again = _AGAIN.get(name)
    if (
        result is None
        and again is not None
        and len(inputs) + len(scalars) == (2 if name in ("Pow", "Div", "Mul") else 1)
    ):
        result = again(*inputs, *scalars)
    if result is not None and not inputs:
        # It saves its result alone (sqrt, exp): what led to it is found where the node before has saved it.
        inputs = [value for value in _results_before(node) if value.shape == result.shape]
    return inputs, result


def _results_before(node: Any) -> list[torch.Tensor]:
    found = []
    for before, _ in node.next_functions:
        for attribute in _RESULTS:
            value = getattr(before, attribute, None) if before is not None else None
            if isinstance(value, torch.Tensor):
                found.append(value)
    return found


def _seen(name: str, node: Any, inputs: list[torch.Tensor], result: torch.Tensor) -> Seen:
    operator = "aten." + re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    known: dict[str, Fact] = {"kind": "made", "node": node.name(), "dtype": facts.name_of(result.dtype)}
    known.update(facts.bad_facts(result))
    described = []
    for index, tensor in enumerate(inputs):
        numbers = facts.numbers(tensor)
        described.append(words(numbers))
        known.update({f"in.{index}.{key}": value for key, value in numbers.items()})
    exponent = getattr(node, "_saved_exponent", None)
    if isinstance(exponent, (int, float)):
        known["arg.1"] = exponent
    replay = Replay(
        step=0,
        status="exact",
        operator=operator,
        phase="forward",
        inputs=tuple(described),
        facts=known,
        then=("the loss",),
    )
    return Seen(replay, {f"input.{index}": as_numpy(tensor) for index, tensor in enumerate(inputs)})
