"""Two inference pipelines that give other metrics: which stage is to blame, by changing one thing at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from tensight.compare.noise import MARGIN, SINGLE
from tensight.compare.values import Held, measure
from tensight.errors import UsageError

Array = np.ndarray[Any, Any]
LOOSE = 1e-4  # outputs of two frameworks, after a whole network, are as far apart as this by rounding


class Pipeline(msgspec.Struct, frozen=True):
    """One side: raw data → `process` → `model` → `metric`. Each gives and takes NumPy arrays, or what it likes.

    `metric` takes outputs and targets and gives a number.
    """

    process: Callable[[Any], Any]
    model: Callable[[Any], Any]
    metric: Callable[[Any, Any], float]


class Stage(msgspec.Struct, frozen=True):
    """One stage of both sides, given the same: `same` is None where it could not be tried."""

    name: str  # 'processing' | 'model' | 'metric' | 'whole'
    same: bool | None
    error: float
    note: str = ""


class Inference(msgspec.Struct, frozen=True):
    """What the check says: `first` is the first stage that differs, '' when none does."""

    stages: list[Stage]
    first: str
    metric_a: float
    metric_b: float

    def __str__(self) -> str:
        lines = [
            f"{stage.name:11} {_word(stage.same)}" + (f"  ({stage.note})" if stage.note else "")
            for stage in self.stages
        ]
        said = f"look at the {self.first} first" if self.first else "every stage agrees"
        return "\n".join((*lines, f"metric      {self.metric_a:.6g} against {self.metric_b:.6g}: {said}"))


def _word(same: bool | None) -> str:
    return {True: "agrees", False: "DIFFERS", None: "not tried"}[same]


def compare_inference(
    data: Any, targets: Any, a: Pipeline, b: Pipeline, *, tolerance: float = LOOSE, metric_tolerance: float = 1e-3
) -> Inference:
    """Find the stage in which two pipelines part: each is run by both on what A's earlier stages gave.

    >>> double = Pipeline(lambda x: x, lambda x: 2 * x, lambda y, t: float(np.mean(y - t)))
    >>> scaled = Pipeline(lambda x: x / 255, lambda x: 2 * x, lambda y, t: float(np.mean(y - t)))
    >>> compare_inference(np.ones(4), np.zeros(4), double, scaled).first
    'processing'
    """
    stages: list[Stage] = []
    fed = a.process(data)
    other = b.process(data)
    stages.append(_stage("processing", fed, other, MARGIN * SINGLE))
    given = a.model(fed)
    stages.append(_tried("model", lambda: _stage("model", given, b.model(fed), tolerance)))
    ours = float(a.metric(given, targets))
    stages.append(_tried("metric", lambda: _number("metric", ours, float(b.metric(given, targets)), 1e-6)))
    theirs = float(b.metric(b.model(other), targets))
    stages.append(_number("whole", ours, theirs, metric_tolerance))
    first = next((stage.name for stage in stages[:3] if stage.same is False), "")
    return Inference(stages, first, ours, theirs)


def _tried(name: str, work: Callable[[], Stage]) -> Stage:
    """A stage of B may not take what A's gives: that is said, and no reason to stop."""
    try:
        return work()
    except Exception as error:
        return Stage(name, None, math.nan, f"B's {name} cannot take what A's gave: {error}")


def _number(name: str, a: float, b: float, tolerance: float) -> Stage:
    error = abs(a - b) / max(abs(a), abs(b)) if a != b and (a or b) else 0.0
    return Stage(name, error <= tolerance, error, f"{a:.6g} against {b:.6g}")


def _stage(name: str, a: Any, b: Any, tolerance: float) -> Stage:
    ours, theirs = _arrays(a), _arrays(b)
    if [x.shape for x in ours] != [y.shape for y in theirs]:
        shapes = f"shapes {[list(x.shape) for x in ours]} and {[list(y.shape) for y in theirs]}"
        return Stage(name, False, math.inf, shapes)
    worst, note = 0.0, ""
    for x, y in zip(ours, theirs):
        found = measure(Held(x.reshape(-1)), Held(y.reshape(-1)))
        error = found.distance(1.0).error
        if error > worst:
            worst = error
            note = f"relative error {error:.3g}, {_cause(x, y, found.size_a, found.size_b)}".removesuffix(", ")
    return Stage(name, worst <= tolerance, worst, note)


def _cause(x: Array, y: Array, size_x: float, size_y: float) -> str:
    """What most often sets two ways of preparing data apart."""
    if size_x and size_y:
        factor = size_y / size_x
        if abs(factor - 1) > 1e-3 and np.allclose(x * factor, y, rtol=1e-4, atol=1e-6 * float(np.abs(y).max())):
            return f"B's values are {factor:.4g} times A's"
    for axis in range(x.ndim):
        if x.shape[axis] > 1 and np.array_equal(np.flip(x, axis), y):
            return f"B has axis {axis} the other way round (RGB against BGR?)"
    if x.size <= 1 << 24 and np.array_equal(np.sort(x, axis=None), np.sort(y, axis=None)):
        return "the same values in another order"
    return ""


def _arrays(value: Any) -> Sequence[Array]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [array for one in value for array in _arrays(one)]
    for name in ("detach", "asnumpy"):  # a tensor of PyTorch or MindSpore
        if hasattr(value, name):
            value = value.detach().cpu().numpy() if name == "detach" else value.asnumpy()
            break
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise UsageError(f"a stage gave a {type(value).__name__}, which is no array of numbers")
    return [array]
