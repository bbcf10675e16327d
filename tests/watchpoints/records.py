"""Made-up records for the tests of watchpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensight.records import Change, Hit, Observation, Stats, TensorInfo
from tensight.watchpoints.checker import Checker


def tensor(id: int = 1, kind: str = "output", node: str = "head", slot: str = "", **more: Any) -> TensorInfo:
    """A tensor; weights and gradients are called 'weight', all else 'output.0'."""
    own = "weight" if kind in ("weight", "gradient", "frozen", "buffer") else "output.0"
    more = {"dtype": "float32", "shape": (10, 10), **more}
    return TensorInfo(id=id, kind=kind, node=node, slot=slot or own, **more)  # type: ignore[arg-type]


def plain(**more: Any) -> Stats:
    """Statistics nobody minds: 100 values around 0."""
    usual = {
        "positive": 50,
        "negative": 50,
        "min": -2.0,
        "max": 2.0,
        "mean": 0.01,
        "abs_mean": 0.8,
        "std": 1.0,
        "l2": 10.0,
    }
    return Stats(**{"count": 100, **usual, **more})


def sized(value: float) -> Stats:
    """Statistics of 100 positive values around `value`."""
    return plain(negative=0, positive=100, min=value, max=value, mean=value, abs_mean=value, std=0.0, l2=10 * value)


ZEROS = Stats(count=100, zero=100, min=0.0, max=0.0, mean=0.0, abs_mean=0.0, std=0.0, l2=0.0)
NAN = Stats(count=100, nan=3, positive=97, min=0.5, max=1.0, mean=0.7, abs_mean=0.7)


def updated(step: float = 1e-3, before: float = 0.5, moved: int = 100, equal: int = 0, **more: Any) -> Stats:
    """Statistics of a weight after an optimizer step."""
    return plain(change=Change(100, step, step, before, moved, equal), **more)


class Training:
    """Feeds a checker step by step."""

    def __init__(self, checker: Checker, *tensors: TensorInfo) -> None:
        self.checker = checker
        self.tensors = {info.id: info for info in tensors}
        self.steps = 0

    def step(self, *seen: Stats | Observation | None, **more: Any) -> list[Hit]:
        """One step in which the tensors, in their order, had these statistics; None: not observed."""
        observations: Sequence[Observation] = [
            stats if isinstance(stats, Observation) else Observation(id, order, stats)
            for order, (id, stats) in enumerate(zip(self.tensors, seen))
            if stats is not None
        ]
        more.setdefault("updates", self.steps)
        hits = self.checker.check(self.steps, observations, self.tensors, **more)
        self.steps += 1
        return hits
