"""Two checkpoints against each other, in the words of a comparison."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tensight.compare import checkpoints
from tensight.compare.checkpoints import Checkpoint, Entry
from tensight.compare.checkpoints.reports import paired
from tensight.compare.noise import MARGIN, columns, elementwise, rounding
from tensight.compare.preflight import Difference
from tensight.compare.result import Comparison, Divergence, LossVerdict
from tensight.workers import Here, Workers, batches

_BATCH = 256 << 20  # bytes of one task, once its values are float64


def compare_checkpoints(a: Path, b: Path, workers: Workers | None = None) -> Comparison:
    """Compare two checkpoints parameter by parameter, names mapped."""
    one, other = checkpoints.read_foreign(a), checkpoints.read_foreign(b)
    pairs, only_a, only_b = paired(one, other)
    preflight = []
    if one.framework != other.framework and one.framework and other.framework:
        preflight.append(Difference("framework", one.framework, other.framework))
    if only_a or only_b:
        preflight.append(Difference("parameters without a counterpart", only_a, only_b))
    for name, value in one.values.items():
        if name in other.values and other.values[name] != value:
            preflight.append(Difference(name, value, other.values[name]))
    rows: list[dict[str, Any]] = []
    faults: list[Divergence] = []
    exact = not only_a and not only_b
    looks = _looks(workers or Here(), a, b, [pair for pair in pairs if pair[3] == pair[2].shape])
    for name, left, right, shape in pairs:
        floor = max(rounding(left.dtype), rounding(right.dtype))
        module, module_b = left.name.rpartition(".")[0], right.name.rpartition(".")[0]
        if shape != right.shape:
            faults.append(_fault(name, module, module_b, float("inf"), floor, _shapes(left.shape, right.shape)))
            continue
        look = next(looks)
        exact &= look.error == 0
        row = {
            "module": module,
            "module_b": module_b,
            "tensor": name,
            "error": look.error,
            "floor": floor,
            "verdict": "different" if look.different else "rounding" if look.error else "identical",
        }
        rows.append({**row, **look.columns})
        if look.different:
            faults.append(_fault(name, module, module_b, look.error, floor, look.cause))
    verdict = "not_comparable" if not pairs else "different" if faults else "identical" if exact else "rounding"
    reason = "" if pairs else "the checkpoints have no parameter in common"
    loss = LossVerdict(None, "none")
    return Comparison(verdict, preflight, loss, faults[0] if faults else None, faults, rows, reason)


class Look(NamedTuple):
    """Two parameters against each other."""

    error: float
    different: bool
    columns: dict[str, float]
    cause: str  # where they differ


def _looks(
    workers: Workers, a: Path, b: Path, pairs: list[tuple[str, Entry, Entry, tuple[int, ...]]]
) -> Iterator[Look]:
    """Each pair looked at, in turn. What travels to workers is names: they open the files themselves."""
    if workers.count == 1:
        yield from (_look(left, right) for _, left, right, _ in pairs)
        return
    files = (os.path.abspath(a), os.path.abspath(b))
    for batch in workers.map(
        _look_all,
        (
            (*files, [(left.name, right.name) for _, left, right, _ in some])
            for some in batches(pairs, lambda pair: pair[1].count * 8, _BATCH)
        ),
        paths=files,
    ):
        yield from batch


def _look_all(task: tuple[str, str, list[tuple[str, str]]]) -> list[Look]:
    """One task of a worker."""
    a, b, names = task
    one, other = _opened(a, os.stat(a).st_mtime_ns), _opened(b, os.stat(b).st_mtime_ns)
    return [_look(one.entries[left], other.entries[right]) for left, right in names]


@lru_cache(maxsize=2)
def _opened(path: str, changed: int) -> Checkpoint:
    return checkpoints.read(path)


def _look(left: Entry, right: Entry) -> Look:
    floor = max(rounding(left.dtype), rounding(right.dtype))
    x, y = left.numpy(), right.numpy()
    distance = elementwise(x, y, floor)
    different = distance.ratio > MARGIN
    return Look(distance.error, different, columns(x, y), _cause(x, y) if different else "")


def _fault(name: str, module: str, module_b: str, error: float, floor: float, cause: str) -> Divergence:
    return Divergence(module, module_b, None, 0, "start", error, floor, cause, tensor=name)


def _shapes(a: tuple[int, ...], b: tuple[int, ...]) -> str:
    order = "transposed" if a == b[::-1] else "another shape"
    return f"{order}: {list(a)} in A, {list(b)} in B"


def _cause(x: Any, y: Any) -> str:
    if x.ndim == 2 and x.shape[0] == x.shape[1] and np.array_equal(x.T, y.reshape(x.shape)):
        return "transposed"
    # sorting takes longer than all the rest: what has another smallest or largest value needs none
    ends = x.size == 0 or (x.min() == y.min() and x.max() == y.max())
    if ends and np.array_equal(np.sort(x, axis=None), np.sort(y, axis=None)):
        return "the same values in another order"
    bad = [not np.isfinite(side).all() for side in (x, y)]
    if bad[0] != bad[1]:
        return f"NaN or Inf in {'A' if bad[0] else 'B'} alone"
    return "other values: trained further, or not carried over"
