"""Equal tensors are recognised quickly, and what is said of them is what the long way says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from tensight.compare import compare
from tensight.compare.noise import columns, elementwise

VALUES = {
    "random": np.linspace(-3, 5, 101, dtype=np.float32),
    "zeros": np.zeros(7, np.float32),
    "infinite": np.array([1, np.inf, -np.inf, 2], np.float32),
    "nan": np.array([1, np.nan, 3], np.float32),
    "whole": np.arange(-3, 9, dtype=np.int64),
    "empty": np.zeros(0, np.float32),
}


@pytest.mark.parametrize("name", VALUES)
def test_equal_tensors_are_told_as_by_the_long_way(name: str) -> None:
    values = VALUES[name]
    long = values.astype(np.float64)  # another type: the long way is taken
    assert columns(values, values.copy()) == pytest.approx(columns(values, long))
    assert elementwise(values, values.copy(), 1e-7) == elementwise(values, long, 1e-7)


def cause(folder: Path, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> str | None:
    for name, values in (("a", a), ("b", b)):
        save_file({"net.weight": values}, folder / f"{name}.safetensors")
    first = compare(folder / "a.safetensors", folder / "b.safetensors").first_divergence
    return None if first is None else first.likely_cause


def test_values_in_another_order_are_told_from_other_values(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    assert cause(tmp_path, values, values[::-1].copy()) == "the same values in another order"
    inner = values.copy()
    inner[values == np.sort(values, axis=None)[12]] += np.float32(0.01)  # neither the smallest nor the largest
    assert str(cause(tmp_path, values, inner)).startswith("other values")
    assert str(cause(tmp_path, values, 2 * values)).startswith("other values")
    assert cause(tmp_path, values, values.copy()) is None
