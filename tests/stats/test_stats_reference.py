"""The definition of every statistic, on arrays whose answer can be worked out by hand."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from tensight.errors import UsageError
from tensight.records import Needs, Stats, Within
from tensight.stats.reference import statistics


def test_counts_add_up_and_the_rest_is_over_finite_values() -> None:
    stats = statistics(np.array([3.0, -4.0, 0.0, -0.0, np.nan, np.inf, np.inf, -np.inf], np.float32))
    assert (stats.count, stats.nan, stats.pos_inf, stats.neg_inf) == (8, 1, 2, 1)
    assert (stats.zero, stats.negative, stats.positive) == (2, 1, 1)
    assert stats.bad + stats.zero + stats.negative + stats.positive == stats.count
    assert (stats.min, stats.max, stats.mean, stats.abs_mean, stats.l2) == (-4.0, 3.0, -0.25, 1.75, 5.0)
    assert stats.std == pytest.approx(math.sqrt(25 / 4 - 0.0625))


def test_an_empty_array_has_no_value() -> None:
    assert statistics(np.zeros((0, 3)), before=np.zeros((0, 3))) == Stats(count=0)


def test_an_array_without_a_finite_value_has_counts_only() -> None:
    assert statistics(np.array([np.nan, np.inf])) == Stats(count=2, nan=1, pos_inf=1)


def test_integers_keep_exact_extremes() -> None:
    stats = statistics(np.array([2**63 - 1, -(2**63), 5]))
    assert (stats.min, stats.max) == (-(2**63), 2**63 - 1)
    assert type(stats.max) is int
    assert statistics(np.array([2**64 - 1, 0], np.uint64)).max == 2**64 - 1


def test_ranges_of_integers_are_compared_as_integers() -> None:
    array = np.array([2**53, 2**53 + 1, 2**53 + 2])
    stats = statistics(array, Needs(ranges=((0.5, 2.0**53), (2.0**53, 1e300), (-1e300, 3.5), (4, 2))))
    assert [within.count for within in stats.within] == [1, 3, 0, 0]


def test_bool_counts_as_zero_and_one() -> None:
    stats = statistics(np.array([True, False, True, True]))
    assert (stats.zero, stats.positive, stats.min, stats.max, stats.mean) == (1, 3, 0, 1, 0.75)


def test_complex_numbers_count_as_their_parts() -> None:
    stats = statistics(np.array([[3 + 4j], [complex(np.nan, -1)]], np.complex64))
    assert (stats.count, stats.nan, stats.min, stats.max) == (4, 1, -1.0, 4.0)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_short_floats_are_judged_by_their_values(name: str) -> None:
    array = np.array([1.5, -2.0, 0.0, np.nan], dtype=getattr(ml_dtypes, name))
    stats = statistics(array)
    assert (stats.nan, stats.zero, stats.min, stats.max, stats.l2) == (1, 1, -2.0, 1.5, 2.5)


def test_values_near_the_ends_of_float64_neither_overflow_nor_vanish() -> None:
    large = statistics(np.array([1e308, -1e308, 1e308]))
    assert large.mean == pytest.approx(1e308 / 3)
    assert large.l2 == pytest.approx(math.sqrt(3) * 1e308)
    small = statistics(np.array([3e-300, -4e-300]))
    assert small.l2 == pytest.approx(5e-300)
    assert small.std == pytest.approx(3.5e-300)
    assert statistics(np.array([5e-324])).mean == 5e-324


def test_the_deviation_of_values_far_from_zero_keeps_its_digits() -> None:
    array = 1e9 + np.array([0.0, 1.0, 2.0, 3.0])
    assert statistics(array).std == pytest.approx(math.sqrt(1.25), rel=1e-12)


def test_an_array_of_one_value_has_no_deviation_and_that_mean() -> None:
    stats = statistics(np.full(1001, 0.1))
    assert (stats.mean, stats.abs_mean, stats.std) == (0.1, 0.1, 0.0)


def test_ranges_include_their_ends_and_leave_out_infinities() -> None:
    array = np.array([-1.0, 0.0, 0.5, 1.0, np.inf, np.nan])
    stats = statistics(array, Needs(ranges=((0.0, 1.0), (-np.inf, np.inf))))
    assert stats.within == (Within(0.0, 1.0, 3), Within(-np.inf, np.inf, 4))


def test_change_is_over_what_is_finite_in_both() -> None:
    before = np.array([1.0, 2.0, np.nan, np.inf, 5.0, np.nan, 7.0])
    now = np.array([1.0, 2.5, np.nan, np.inf, np.nan, 0.0, 7.0 + 1e-9])
    change = statistics(now, Needs(change=True), before).change
    assert change is not None
    assert change.count == 3
    assert change.abs_mean == pytest.approx((0.5 + 1e-9) / 3)
    assert change.abs_max == 0.5
    assert change.before_abs_mean == pytest.approx(10 / 3)
    assert change.moved == 3  # one by its value; one became NaN, one was
    assert change.equal == 3


def test_tolerances_decide_what_has_moved_and_are_not_mixed_up() -> None:
    before, now = np.array([100.0, 1e-3]), np.array([100.5, 2e-3])
    moved = {
        (rtol, atol): statistics(now, Needs(rtol=rtol, atol=atol), before).change.moved  # type: ignore[union-attr]
        for rtol, atol in [(0.01, 0.0), (0.0, 0.01), (0.0, 1.0), (0.0, 0.0)]
    }
    assert moved == {(0.01, 0.0): 1, (0.0, 0.01): 1, (0.0, 1.0): 0, (0.0, 0.0): 2}


def test_integers_change_by_exact_distances() -> None:
    before, now = np.array([-(2**63), 7]), np.array([2**63 - 1, 7])
    change = statistics(now, Needs(), before).change
    assert change is not None
    assert (change.abs_max, change.moved, change.equal) == (2.0**64, 1, 1)


def test_negative_zero_equals_zero_but_not_in_its_bits() -> None:
    change = statistics(np.array([-0.0]), Needs(), np.array([0.0])).change
    assert change is not None
    assert (change.moved, change.equal) == (0, 0)


def test_chunks_do_not_show() -> None:
    array = np.random.default_rng(0).normal(size=(3, 100_001)).astype(np.float32)
    stats = statistics(array[:, ::-2])
    exact = array[:, ::-2].astype(np.float64)
    assert stats.mean == pytest.approx(exact.mean(), rel=1e-12)
    assert stats.std == pytest.approx(exact.std(), rel=1e-12)
    assert stats.max == exact.max()


def test_other_byte_orders_and_extended_precision_are_read() -> None:
    assert statistics(np.array([1, -2], ">f4")).min == -2.0
    assert statistics(np.array([1, -2], np.longdouble), before=np.array([1, 3], np.longdouble)).change.equal == 1  # type: ignore[union-attr]


def test_what_has_no_numbers_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="<U1"):
        statistics(np.array(["a"]))
    with pytest.raises(UsageError, match="object"):
        statistics(np.array([object()]))


def test_an_earlier_copy_of_another_shape_or_dtype_is_refused() -> None:
    with pytest.raises(UsageError, match="same shape and dtype"):
        statistics(np.zeros(3), before=np.zeros(4))
    with pytest.raises(UsageError, match="float32"):
        statistics(np.zeros(3), before=np.zeros(3, np.float32))
