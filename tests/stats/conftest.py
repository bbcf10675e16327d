"""What the tests of statistics share: when two answers agree, and arrays of every kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tensight.records import Change, Stats
from tensight.stats import native

Array = np.ndarray[Any, Any]

EXACT = ("count", "nan", "pos_inf", "neg_inf", "zero", "negative", "positive", "min", "max", "within")
ROUNDED = ("mean", "abs_mean", "std", "l2")


def assert_agree(got: Stats, truth: Stats, name: str = "") -> None:
    """Counts, extremes and ranges are the same; sums differ by rounding in float64 alone, of bfloat16 in float32."""
    rounding = (1e-6, 1e-7) if name == "bfloat16" else (1e-10, 1e-12)
    for name in EXACT:
        assert getattr(got, name) == getattr(truth, name), name
        assert type(getattr(got, name)) is type(getattr(truth, name)), name
    for name in ROUNDED:
        assert_close(getattr(got, name), getattr(truth, name), truth.abs_mean, name, rounding)
    if truth.change is None or got.change is None:
        assert got.change is truth.change
        return
    for name in Change.__struct_fields__:
        value, expected = getattr(got.change, name), getattr(truth.change, name)
        if name.endswith("mean"):
            assert_close(value, expected, 0.0, f"change.{name}")
        else:
            assert value == expected, f"change.{name}"


def assert_close(
    value: float | None,
    expected: float | None,
    scale: float | None,
    name: str,
    rounding: tuple[float, float] = (1e-10, 1e-12),
) -> None:
    if value is None or expected is None:
        assert value is expected, name
        return
    relative, absolute = rounding
    allowed = absolute * (scale or 0.0) if scale != math.inf else 0.0
    close = value == expected or math.isclose(value, expected, rel_tol=relative, abs_tol=allowed)
    assert close, (name, value, expected)


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def make_array(name: str, kind: str, size: int, seed: int) -> Array:
    """An array of a dtype: any bits at all, or values of a kind that makes trouble."""
    dtype = dtype_of(name)
    random = np.random.default_rng(seed)
    if name == "bool":
        return random.integers(0, 2, size).astype(bool)
    if kind == "bits" or name == "float8_e8m0fnu":
        return np.frombuffer(random.bytes(size * dtype.itemsize), dtype).copy()
    values = random.normal(size=size) * 10
    values += {"far from zero": 3000.0}.get(kind, 0.0)
    values = np.full(size, values[0] if size else 0.0) if kind == "constant" else values
    with np.errstate(all="ignore"):
        limits = np.finfo(dtype) if dtype.kind == "f" and dtype.itemsize > 1 else None
        if limits is not None and kind == "tiny":
            values = values * float(limits.tiny) / 100
        if limits is not None and kind == "huge":
            values = np.clip(values / 40, -1, 1) * float(limits.max)
        made = values.astype(dtype)
        if kind == "zeros":
            made[random.random(size) < 0.4] = np.array(0.0).astype(dtype)
            made[random.random(size) < 0.3] = np.array(-0.0).astype(dtype)
        if kind == "sprinkled" and size and dtype.kind not in "iu":
            for special in (np.nan, np.inf, -np.inf, 0.0, -0.0):
                made[random.integers(0, size, 1 + size // 50)] = np.array(special).astype(dtype)
    return made


@contextmanager
def instructions(name: str) -> Iterator[None]:
    """Make the kernel use these instructions for a while."""
    native.use_instructions(name)
    try:
        yield
    finally:
        native.use_instructions(None)


@pytest.fixture(scope="session")
def agree() -> Callable[..., None]:
    return assert_agree


@pytest.fixture(scope="session")
def array_of() -> Callable[[str, str, int, int], Array]:
    return make_array


@pytest.fixture(scope="session")
def using() -> Callable[[str], Any]:
    return instructions
