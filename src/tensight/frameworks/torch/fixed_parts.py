"""Frozen parts of a network that give the target of its loss: a teacher kept inside the model that is trained.

No graph leads from a target to the part that made it. What the part answered is held by a weak reference, and compared
with the target when a loss is made: it is that very tensor, or a function of it that keeps the order of the values in
each row (softmax, a temperature, a normalisation), or their place (argmax).
"""

from __future__ import annotations

import weakref
from collections import deque

import torch
from torch import nn

from tensight.frameworks.source import user_source
from tensight.frameworks.torch.networks import Entry, Networks
from tensight.frameworks.torch.shards import PLAIN
from tensight.frameworks.torch.watching import Watching
from tensight.records import Source

_LATELY = 8  # answers that are compared
_ROWS = 32  # of each
_FEWEST = 24  # values: fewer may be in one order by chance
_EVENTS = 60  # of a run


class FixedParts:
    """Told of every call that is looked at and whose answer has no graph."""

    def __init__(self, watching: Watching, networks: Networks) -> None:
        self.watching = watching
        self.networks = networks
        self._answers: deque[tuple[Entry, weakref.ref, Source | None]] = deque(maxlen=_LATELY)
        self._told: tuple[int, int] = (0, -1)  # events so far, step of the last one

    def answered(self, entry: Entry, result: object) -> None:
        """A part of a network has returned."""
        if not entry.path or self._over() or type(result) not in PLAIN or result.requires_grad:  # type: ignore[attr-defined]
            return
        if result.is_floating_point() and result.numel() >= _FEWEST:  # type: ignore[attr-defined]
            source = user_source() if self.watching.phase == "evaluation" else None
            self._answers.append((entry, weakref.ref(result), source))

    def target(self, target: torch.Tensor | None) -> None:
        """A loss is made of this one and a prediction."""
        if not self._answers or target is None or target.requires_grad or self._over():
            return
        for entry, ref, source in reversed(self._answers):
            answer, module = ref(), entry.ref()
            model = self.networks.models.get(entry.network)
            root = model.ref() if model is not None else None
            if answer is None or module is None or root is None or _frozen(root) or not _frozen(module):
                continue  # a network that is frozen as a whole is followed by the marks on its weights
            if not follows(target, answer):
                continue
            self._told = (self._told[0] + 1, self.watching.sink.step)
            parts = [path for path, one in module.named_modules() if _random(one)]
            values = {
                "module": entry.path,
                "training": bool(parts),
                "inner": f"{entry.path}.{parts[0]}" if parts and parts[0] else entry.path,
                "count": len(parts),
                "kinds": ", ".join(sorted({type(one).__name__ for one in module.modules() if _random(one)})),
                "size": _size(module),
            }
            self.watching.sink.event("fixed_part", entry.network, values, source or user_source())
            break
        self._answers.clear()

    def _over(self) -> bool:
        """Once in a step is enough."""
        return self._told[0] >= _EVENTS or self._told[1] == self.watching.sink.step


def follows(target: torch.Tensor, answer: torch.Tensor) -> bool:
    """Whether a target is an answer, or tells the order of the values in its rows.

    >>> answer = torch.randn(8, 5)
    >>> follows((answer / 3).softmax(1), answer), follows(answer.argmax(1), answer), follows(torch.randn(8, 5), answer)
    (True, True, False)
    """
    if target is answer or (target.shape == answer.shape and target.data_ptr() == answer.data_ptr()):
        return True
    if target.dtype.is_complex or answer.dim() < 2 or answer.shape[-1] < 2 or target.device != answer.device:
        return False
    with torch.no_grad():
        rows = answer.detach().reshape(-1, answer.shape[-1])[:_ROWS]
        if rows.shape[0] * rows.shape[1] < _FEWEST:
            return False
        if target.shape == answer.shape[:-1] and target.dtype is torch.int64:
            said = target.reshape(-1)[:_ROWS]
            return bool((said != said[0]).any()) and torch.equal(rows.argmax(-1), said)
        if target.shape != answer.shape or not target.is_floating_point():
            return False
        ordered = target.detach().reshape(-1, rows.shape[1])[:_ROWS].gather(1, rows.argsort(-1))
        rising = ordered[:, 1:] >= ordered[:, :-1]
        return bool(rising.all()) and bool((ordered[:, -1] > ordered[:, 0]).any())


def _frozen(module: nn.Module) -> bool:
    parameters = list(module.parameters())
    return bool(parameters) and not any(one.requires_grad for one in parameters)


def _random(module: nn.Module) -> bool:
    """Whether a module does in training mode what it would not do in evaluation, and is in it."""
    name = type(module).__name__
    if not module.training:
        return False
    dropping = "Dropout" in name and getattr(module, "p", 0.5) not in (0, 0.0)
    return dropping or "BatchNorm" in name


def _size(module: nn.Module) -> float:
    """A number that changes when its weights do."""
    with torch.no_grad():
        last = list(module.parameters())[-1]
        first = next(module.parameters())
        return sum(float(one.detach().reshape(-1)[:4096].double().sum()) for one in (first, last))
