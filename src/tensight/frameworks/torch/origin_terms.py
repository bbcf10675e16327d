"""Of what a loss is the sum: which summand went bad."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from tensight.frameworks.torch.operators import Call

_SUMS = frozenset({"add", "add_", "sub", "sub_"})
_SCALES = frozenset({"mul", "mul_", "div", "div_", "neg", "_to_copy", "clone", "alias", "detach", "view", "squeeze"})
_LISTS = frozenset({"stack", "cat"})
_FOLDS = frozenset({"sum", "mean"})
_MOST = 20_000


@dataclass(eq=False)
class Term:
    """A single number that took part in a loss: how it was made, and of which numbers it is the sum."""

    value: float
    call: Call
    parts: list[Term] = field(default_factory=list)


class Terms:
    """Follows single numbers through the sums of one step."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Term]] = {}  # by storage, which is held so that its address stays its own

    def clear(self) -> None:
        self._known.clear()

    def seen(self, call: Call) -> None:
        """An operator of the forward pass gave a result."""
        inputs = call.inputs()
        base = call.name.rpartition(".")[2]
        result = call.result
        if not isinstance(result, torch.Tensor) or not result.is_floating_point() or len(self._known) > _MOST:
            return
        if result.numel() != 1 and not (base in _LISTS and all(one.numel() == 1 for one in inputs)):
            return
        if not any(tensor.requires_grad for tensor in inputs):
            return  # a constant, a loss scale
        known = [self.of(tensor) for tensor in inputs]
        terms = [term for term in known if term is not None]
        value = result.item() if result.numel() == 1 else math.nan
        term = Term(value, call)
        if (base in _SUMS and len(terms) > 1) or (base in _LISTS and len(terms) == len(inputs)):
            term.parts = terms
        elif len(terms) == 1 and (base in _SCALES or base in _SUMS or (base in _FOLDS and terms[0].parts)):
            term.call, term.parts = terms[0].call, terms[0].parts
        self._known[_storage(result)] = (result.untyped_storage(), term)

    def of(self, tensor: torch.Tensor) -> Term | None:
        return self._known.get(_storage(tensor), (None, None))[1]

    def bad_summand(self, loss: torch.Tensor) -> str:
        """The summand of a bad loss that is not finite, in words; '' when the loss is no sum or all of it is bad."""
        root = self.of(loss)
        summands = [] if root is None else _flat(root)
        spoilt = [index for index, term in enumerate(summands) if not math.isfinite(term.value)]
        if not spoilt or len(spoilt) == len(summands):
            return ""
        term = summands[spoilt[0]]
        source = term.call.source
        place = "" if source is None else f", {source.file}:{source.line}"
        others = ", ".join(f"{other.value:g}" for other in summands if math.isfinite(other.value))
        return (
            f"summand {spoilt[0] + 1} of {len(summands)} ({term.call.name}{place}) is {term.value:g};"
            f" the others are {others}"
        )


def _flat(term: Term) -> list[Term]:
    found: list[Term] = []
    waiting = [term]
    while waiting and len(found) < _MOST:
        one = waiting.pop()
        if one.parts:
            waiting.extend(reversed(one.parts))
        else:
            found.append(one)
    return found


def _storage(tensor: torch.Tensor) -> int:
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return id(tensor)
