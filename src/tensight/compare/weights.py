"""Two checkpoints against each other, in the words of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tensight.compare import checkpoints
from tensight.compare.checkpoints.reports import paired
from tensight.compare.noise import MARGIN, columns, elementwise, rounding
from tensight.compare.preflight import Difference
from tensight.compare.result import Comparison, Divergence, LossVerdict


def compare_checkpoints(a: Path, b: Path) -> Comparison:
    """Compare two checkpoints parameter by parameter, names mapped."""
    one, other = checkpoints.read(a), checkpoints.read(b)
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
    for name, left, right, shape in pairs:
        floor = max(rounding(left.dtype), rounding(right.dtype))
        module, module_b = left.name.rpartition(".")[0], right.name.rpartition(".")[0]
        if shape != right.shape:
            faults.append(_fault(name, module, module_b, float("inf"), floor, _shapes(left.shape, right.shape)))
            continue
        x, y = left.numpy(), right.numpy()
        distance = elementwise(x, y, floor)
        different = distance.ratio > MARGIN
        exact &= distance.error == 0
        row = {
            "module": module,
            "module_b": module_b,
            "tensor": name,
            "error": distance.error,
            "floor": floor,
            "verdict": "different" if different else "rounding" if distance.error else "identical",
        }
        rows.append({**row, **columns(x, y)})
        if different:
            faults.append(_fault(name, module, module_b, distance.error, floor, _cause(x, y)))
    verdict = "not_comparable" if not pairs else "different" if faults else "identical" if exact else "rounding"
    reason = "" if pairs else "the checkpoints have no parameter in common"
    loss = LossVerdict(None, "none")
    return Comparison(verdict, preflight, loss, faults[0] if faults else None, faults, rows, reason)


def _fault(name: str, module: str, module_b: str, error: float, floor: float, cause: str) -> Divergence:
    return Divergence(module, module_b, None, 0, "start", error, floor, cause, tensor=name)


def _shapes(a: tuple[int, ...], b: tuple[int, ...]) -> str:
    order = "transposed" if a == b[::-1] else "another shape"
    return f"{order}: {list(a)} in A, {list(b)} in B"


def _cause(x: Any, y: Any) -> str:
    if x.ndim == 2 and x.shape[0] == x.shape[1] and np.array_equal(x.T, y.reshape(x.shape)):
        return "transposed"
    if np.array_equal(np.sort(x, axis=None), np.sort(y, axis=None)):
        return "the same values in another order"
    return "other values: trained further, or not carried over"
