"""Conditions against a reference in plain NumPy, written for these tests alone, over dtypes, shapes and bad values.

Values that lie within rounding of a threshold are left out: there either verdict is right.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tensight.records import Observation, TensorInfo, Watchpoint
from tensight.stats.reference import statistics
from tensight.watchpoints.catalogue import CONDITIONS
from tensight.watchpoints.checker import Checker

FLOATS = {
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
}
WHOLE = {name: getattr(np, name) for name in ("int8", "int16", "int32", "int64", "uint8")}
DTYPES = {**FLOATS, **WHOLE, "bool": np.bool_}
SHAPES = [(), (0,), (1,), (7,), (3, 0, 2), (4, 5), (2, 3, 4), (33,)]
FLAVOURS = ["plain", "zeros", "sparse", "constant", "huge", "subnormal", "nan", "inf", "bad", "all_nan"]
LAYOUTS = ["contiguous", "strided", "transposed", "reversed"]


def _values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], flavour: str) -> np.ndarray:
    x = rng.normal(0.0, 2.0, shape)
    if flavour == "zeros":
        x = np.zeros(shape)
    elif flavour in ("sparse", "nan", "inf", "bad"):
        x = x * (rng.random(shape) < 0.3)
    elif flavour == "constant":
        x = np.full(shape, 1.5)
    elif flavour == "huge":
        x = x * {"float64": 1e300, "float32": 1e37, "bfloat16": 1e37}.get(dtype, 30.0)
    elif flavour == "subnormal":
        x = x * {"float64": 1e-310, "float32": 1e-41, "float16": 1e-6, "bfloat16": 1e-39}.get(dtype, 1e-2)
    if dtype in FLOATS:
        x = np.asarray(x)
        if flavour in ("nan", "bad"):
            x[rng.random(shape) < 0.3] = np.nan
        if flavour in ("inf", "bad"):
            x[rng.random(shape) < 0.3] = np.inf
            x[rng.random(shape) < 0.2] = -np.inf
        if flavour == "all_nan":
            x = np.full(shape, np.nan)
    with np.errstate(all="ignore"):
        if dtype == "bool":
            return np.asarray(x > 0.5)
        if dtype in WHOLE:
            limits = np.iinfo(WHOLE[dtype])
            scale = 2.0**40 if flavour == "huge" and dtype == "int64" else 3.0
            return np.asarray(np.clip(np.rint(x * scale), float(limits.min), float(limits.max)).astype(WHOLE[dtype]))
        return np.asarray(x).astype(FLOATS[dtype])


def _laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    """The same values, held in memory in another way."""
    if array.ndim == 0 or layout == "contiguous":
        return array
    if layout == "strided":
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if layout == "reversed":
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    return np.ascontiguousarray(array.T).T


@st.composite
def arrays(draw: st.DrawFn, dtypes: tuple[str, ...] = tuple(DTYPES)) -> tuple[str, np.ndarray]:
    dtype = draw(st.sampled_from(dtypes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    array = _values(rng, dtype, draw(st.sampled_from(SHAPES)), draw(st.sampled_from(FLAVOURS)))
    return dtype, _laid_out(array, draw(st.sampled_from(LAYOUTS)))


def _kind(code: str) -> str:
    kinds = CONDITIONS[code].applies_to
    return next(kind for kind in ("output", "weight", "gradient", "activation", "input") if not kinds or kind in kinds)


def _outcome(code: str, parameters: dict[str, float], dtype: str, now: np.ndarray, before: np.ndarray | None = None):
    """What Tensight says: the names that held, or the error code."""
    info = TensorInfo(id=1, kind=_kind(code), node="n", slot="weight", dtype=dtype, shape=now.shape)
    checker = Checker([Watchpoint(1, code, parameters)])
    needs = checker.needs(info)
    stats = statistics(now, needs, before if needs.change else None)
    hits = checker.check(0, [Observation(1, 0, stats)], {1: info}, updates=0)
    assert len(hits) <= 1
    if not hits:
        return set()
    if hits[0].error is not None:
        return hits[0].error
    if now.size and stats.bad and code not in ("TO", "OO", "WO", "GE"):
        assert f"judged on the finite {stats.finite} of {stats.count} values" in hits[0].note
    return set(hits[0].actual)


def _finite(array: np.ndarray) -> np.ndarray:
    x = array.astype(np.float64).ravel()
    return x[np.isfinite(x)]


def _no_value(array: np.ndarray) -> str | None:
    if array.size == 0:
        return "no_value"
    x = array.astype(np.float64).ravel()
    if np.isfinite(x).any():
        return None
    return "nan" if np.isnan(x).any() else "inf"


def _clear(actual: float, threshold: float) -> bool:
    """Whether a value is far enough from a threshold for only one verdict to be right."""
    return abs(actual - threshold) > 1e-6 * max(abs(actual), abs(threshold)) + 1e-320


def _mean(x: np.ndarray) -> float:
    return math.fsum(float(value) / x.size for value in x)


MEASURES = {
    "max": lambda x: float(x.max()),
    "min": lambda x: float(x.min()),
    "mean": _mean,
    "abs_mean": lambda x: _mean(np.abs(x)),
    "zero_percentage": lambda x: 100.0 * np.count_nonzero(x == 0) / x.size,
    "max_min": lambda x: float(x.max()) - float(x.min()),
    "std": lambda x: _scaled(x, lambda y: math.sqrt(_mean((y - _mean(y)) ** 2))),
    "l2": lambda x: _scaled(x, lambda y: math.sqrt(math.fsum(y * y))),
    "abs_of_mean": lambda x: abs(_mean(x)),
}


def _scaled(x: np.ndarray, measure) -> float:
    """A measure that grows with its values, taken where no square overflows or vanishes."""
    top = float(np.abs(x).max())
    return 0.0 if top == 0 else measure(x / top) * top


THRESHOLDS = {
    "TZ": ["zero_percentage_ge"],
    "TL": ["abs_mean_gt", "max_gt", "min_gt", "mean_gt"],
    "TS": ["abs_mean_lt", "max_lt", "min_lt", "mean_lt"],
    "TR": ["max_min_lt", "max_min_gt"],
    "AR": ["max_min_lt", "max_min_gt"],
    "WI": ["zero_percentage_ge", "max_gt", "min_lt"],
    "WL": ["abs_mean_gt", "max_gt", "min_gt", "mean_gt"],
    "WS": ["abs_mean_lt", "max_lt", "min_lt", "mean_lt"],
    "GL": ["abs_mean_gt", "max_gt", "min_gt", "mean_gt"],
    "GV": ["abs_mean_lt", "max_lt", "min_lt", "mean_lt"],
    "SD": ["std_gt", "std_lt"],
    "L2": ["l2_gt", "l2_lt"],
}


@pytest.mark.parametrize("code", sorted(THRESHOLDS))
@settings(deadline=None, max_examples=40, derandomize=True)
@given(data=st.data())
def test_threshold_conditions_agree_with_numpy(code, data):
    dtype, array = data.draw(arrays())
    error, x = _no_value(array), _finite(array)
    names = data.draw(st.lists(st.sampled_from(THRESHOLDS[code]), min_size=1, unique=True))
    parameters, expected = {}, set()
    for name in names:
        stem, _, ending = name.rpartition("_")
        actual = MEASURES[stem](x) if error is None else 1.0
        assume(math.isfinite(actual))
        threshold = actual * data.draw(st.sampled_from([0.5, 0.999, 1.001, 2.0])) + data.draw(
            st.sampled_from([0, 0, 1, -1])
        )
        if stem in ("abs_mean", "std", "l2", "max_min", "zero_percentage"):
            threshold = abs(threshold)
        if stem == "zero_percentage":
            threshold = data.draw(st.sampled_from([min(threshold, 100.0), 100.0, 50.0]))
        if name == "max_min_lt":
            threshold = threshold or 1.0
        assume(math.isfinite(threshold))
        # Shares are counted exactly, so even a tie has one right answer there.
        assume(stem == "zero_percentage" or _clear(actual, threshold))
        parameters[name] = threshold
        holds = {"gt": actual > threshold, "ge": actual >= threshold, "lt": actual < threshold}[ending]
        expected |= {name} if holds else set()
    if code == "WI" and "zero_percentage_ge" not in parameters and x.size and not x.any():
        expected.add("zero_percentage_ge")  # its default
    assert _outcome(code, parameters, dtype, array) == (error or expected)


@pytest.mark.parametrize("code", ["TR", "AR"])
@settings(deadline=None, max_examples=100, derandomize=True)
@given(data=st.data())
def test_range_conditions_agree_with_numpy(code, data):
    dtype, array = data.draw(arrays())
    error, x = _no_value(array), _finite(array)
    ends = sorted(data.draw(st.tuples(*[st.sampled_from([-1e30, -2.0, -0.5, 0.0, 1.0, 3.0, 1e30])] * 2)))
    share = 100.0 * np.count_nonzero((x >= ends[0]) & (x <= ends[1])) / x.size if x.size else 0.0
    threshold = data.draw(st.sampled_from([0.0, 0.1, 25.0, 50.0, 99.9, 100.0]))
    name = data.draw(st.sampled_from(["range_percentage_lt", "range_percentage_gt"]))
    holds = share < threshold if name.endswith("lt") else share > threshold
    parameters = {name: threshold, "range_start_inclusive": ends[0], "range_end_inclusive": ends[1]}
    assert _outcome(code, parameters, dtype, array) == (error or ({name} if holds else set()))


@pytest.mark.parametrize("code", ["TO", "OO", "WO", "GE"])
@settings(deadline=None, max_examples=40, derandomize=True)
@given(made=arrays())
def test_overflow_conditions_agree_with_numpy(code, made):
    dtype, array = made
    x = array.astype(np.float64)
    expected = {name for name, there in (("nan", np.isnan(x).any()), ("inf", np.isinf(x).any())) if there}
    assert _outcome(code, {}, dtype, array) == (expected if array.size else "no_value")


@st.composite
def updates(draw: st.DrawFn) -> tuple[str, np.ndarray, np.ndarray]:
    """A tensor before and after an optimizer step."""
    dtype, before = draw(arrays(dtypes=(*FLOATS, "int32", "uint8")))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.sampled_from([0.0, 1e-7, 1e-3, 0.5]))
    with np.errstate(all="ignore"):
        moved = before.astype(np.float64) * (1 + size * rng.normal(size=before.shape))
        if draw(st.booleans()):
            moved = np.where(rng.random(before.shape) < 0.2, before.astype(np.float64) + size, moved)
        if dtype in WHOLE:
            limits = np.iinfo(before.dtype)
            moved = np.clip(np.rint(moved), limits.min, limits.max)
        if dtype in FLOATS and draw(st.booleans()):
            moved = np.where(rng.random(before.shape) < 0.1, np.nan, moved)
        return dtype, before, np.asarray(moved).astype(before.dtype)


@settings(deadline=None, max_examples=120, derandomize=True)
@given(made=updates(), rtol=st.sampled_from([0.0, 1e-5, 1e-2, 0.6]), atol=st.sampled_from([0.0, 1e-8, 0.1]))
def test_weight_not_changed_agrees_with_numpy(made, rtol, atol):
    dtype, before, now = made
    p, c = before.astype(np.float64).ravel(), now.astype(np.float64).ravel()
    both = np.isfinite(p) & np.isfinite(c)
    with np.errstate(all="ignore"):
        limit, change = atol + rtol * np.abs(p[both]), np.abs(c[both] - p[both])
        assume(np.isfinite(change).all())
    assume(all(step == 0 or _clear(step, most) for step, most in zip(change, limit)))
    same = (np.isnan(p) & np.isnan(c)) | (p == c)
    still = bool((change <= limit).all() and same[~both].all())
    expected = {"rtol", "atol"} if still else set()
    assert _outcome("WNC", {"rtol": rtol, "atol": atol}, dtype, now, before) == (expected if now.size else "no_value")


@pytest.mark.parametrize(("code", "name"), [("WCL", "abs_mean_update_ratio_gt"), ("WCS", "abs_mean_update_ratio_lt")])
@settings(deadline=None, max_examples=60, derandomize=True)
@given(data=st.data(), made=updates(), epsilon=st.sampled_from([1e-9, 1.0]))
def test_update_ratios_agree_with_numpy(code, name, data, made, epsilon):
    dtype, before, now = made
    p, c = before.astype(np.float64).ravel(), now.astype(np.float64).ravel()
    both = np.isfinite(p) & np.isfinite(c)
    if now.size == 0:
        assert _outcome(code, {name: 0.1, "epsilon": epsilon}, dtype, now, before) == "no_value"
    elif not both.any():
        assert _outcome(code, {name: 0.1, "epsilon": epsilon}, dtype, now, before) in ("nan", "inf")
    else:
        with np.errstate(all="ignore"):
            ratio = _mean(np.abs(c[both] - p[both])) / (_mean(np.abs(p[both])) + epsilon)
        assume(math.isfinite(ratio))
        threshold = data.draw(st.sampled_from([0.0, 1e-4, 0.1, 1.0, ratio * 0.999, ratio * 1.001]))
        assume(ratio == 0 or _clear(ratio, threshold))
        holds = ratio > threshold if code == "WCL" else ratio < threshold
        assert _outcome(code, {name: threshold, "epsilon": epsilon}, dtype, now, before) == ({name} if holds else set())


def test_rtol_and_atol_are_not_swapped_in_weight_not_changed():
    before = np.array([1000.0, 2000.0])
    now = before + 0.5  # a change of 0.5: within rtol 1e-3 of each value, far beyond atol 1e-3
    assert _outcome("WNC", {"rtol": 1e-3, "atol": 1e-9}, "float64", now, before) == {"rtol", "atol"}
    assert _outcome("WNC", {"rtol": 1e-9, "atol": 1e-3}, "float64", now, before) == set()
    tiny = np.array([1e-6, -1e-6])
    assert _outcome("WNC", {"rtol": 1e-9, "atol": 1e-3}, "float64", tiny * 3, tiny) == {"rtol", "atol"}
    assert _outcome("WNC", {"rtol": 1e-3, "atol": 1e-9}, "float64", tiny * 3, tiny) == set()


def test_the_update_ratio_is_the_mean_of_changes_over_the_mean_of_the_weight_before():
    before = np.array([1.0, -1.0, 1.0, -1.0])
    now = np.array([1.2, -0.8, 1.2, -0.8])
    # The absolute values' mean does not change (1.0 and 1.0), nor is the mean of the update its absolute mean, and
    # the weight after the step is not what it is measured against.
    assert _outcome("WCL", {"abs_mean_update_ratio_gt": 0.19}, "float64", now, before) == {"abs_mean_update_ratio_gt"}
    assert _outcome("WCL", {"abs_mean_update_ratio_gt": 0.21}, "float64", now, before) == set()
    uneven = np.array([1.4, -1.0, 1.0, -1.0])  # 0.1 in the mean, 0.4 at most
    assert _outcome("WCL", {"abs_mean_update_ratio_gt": 0.11}, "float64", uneven, before) == set()
    assert _outcome("WCS", {"abs_mean_update_ratio_lt": 0.11}, "float64", uneven, before) == {
        "abs_mean_update_ratio_lt"
    }
    assert _outcome("WCS", {"abs_mean_update_ratio_lt": 0.09}, "float64", uneven, before) == set()
    doubled = before * 2  # 1.0 of the weight before, 0.5 of the weight after
    assert _outcome("WCL", {"abs_mean_update_ratio_gt": 0.9}, "float64", doubled, before) == {
        "abs_mean_update_ratio_gt"
    }


def test_averages_are_right_when_a_tensor_is_read_in_pieces():
    piece = 1 << 16
    x = np.concatenate([np.full(piece, 1.0), np.full(piece, 3.0), np.full(7, 1000.0)]).astype(np.float32)
    right = (piece + 3 * piece + 7000) / (2 * piece + 7)
    for name in ("abs_mean_gt", "mean_gt"):
        assert _outcome("TL", {name: right * (1 - 1e-5)}, "float32", x) == {name}
        assert _outcome("TL", {name: right * (1 + 1e-5)}, "float32", x) == set()
    before, now = np.zeros_like(x), x * 0
    now[-7:] = 1.0
    moved = 7 / x.size / 1.0
    assert _outcome("WCL", {"abs_mean_update_ratio_gt": moved * 0.999, "epsilon": 1.0}, "float32", now, before)
    assert not _outcome("WCL", {"abs_mean_update_ratio_gt": moved * 1.001, "epsilon": 1.0}, "float32", now, before)


def test_shares_are_those_of_the_finite_values():
    x = np.array([0.0, 0.0, 5.0, np.nan, np.nan, np.inf, -np.inf, np.nan], np.float16)
    assert _outcome("TZ", {"zero_percentage_ge": 66.0}, "float16", x) == {"zero_percentage_ge"}
    assert _outcome("TZ", {"zero_percentage_ge": 67.0}, "float16", x) == set()
    bounds = {"range_start_inclusive": -1.0, "range_end_inclusive": 1.0}
    assert _outcome("TR", {"range_percentage_gt": 66.0, **bounds}, "float16", x) == {"range_percentage_gt"}
    assert _outcome("TR", {"range_percentage_lt": 66.0, **bounds}, "float16", x) == set()


def test_integers_beyond_the_range_of_float64_keep_their_extremes():
    x = np.array([2**62, 2**62 + 1], np.int64)
    assert _outcome("TR", {"max_min_lt": 1.5}, "int64", x) == {"max_min_lt"}
    assert _outcome("TR", {"max_min_gt": 0.5}, "int64", x) == {"max_min_gt"}
    assert _outcome("TL", {"max_gt": 2.0**62}, "int64", x) == {"max_gt"}
    assert _outcome("TL", {"min_gt": 2.0**62}, "int64", x) == set()


def test_complex_tensors_are_judged_by_real_and_imaginary_parts():
    x = np.array([1 + 5j, -2 + 0j], np.complex64)
    assert _outcome("TL", {"max_gt": 4.0}, "complex64", x) == {"max_gt"}
    assert _outcome("TZ", {"zero_percentage_ge": 25.0}, "complex64", x) == {"zero_percentage_ge"}
    assert _outcome("TO", {}, "complex64", np.array([complex(0, math.inf)])) == {"inf"}
