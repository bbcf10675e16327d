"""The expression language: what it means, what it refuses."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensight.errors import SpecError
from tensight.records import Needs, Stats
from tensight.watchpoints.condition import History
from tensight.watchpoints.expression import Expression
from tests.watchpoints.records import NAN, plain, sized, tensor, updated

INFO = tensor()
PLAIN = plain()


def judged(text: str, now: Stats = PLAIN, *earlier: Stats):
    return Expression(text).judge(now, History(tuple(range(len(earlier))), earlier), INFO)


def holds(text: str, now: Stats = PLAIN, *earlier: Stats) -> bool:
    return bool(judged(text, now, *earlier).held)


@pytest.mark.parametrize(
    "text",
    [
        "max > 1",
        "max >= 2 and min <= -2",
        "max > 100 or min < -1",
        "not max > 100",
        "not not max == 2",
        "max - min == 4",
        "2 + 3 * 4 == 14",
        "(2 + 3) * 4 == 20",
        "10 - 4 - 3 == 3",
        "8 / 4 / 2 == 1",
        "-2 == min",
        "- -2 == max",
        "2 - -2 == max_min",
        "abs(min) == max",
        "sqrt(4) == max",
        "log(1) == 0",
        "1e-9 < .5",
        "1. != 2",
        "count == 100 and positive + negative == count",
        "abs_max == 2 and zero_percentage == 0 and bad == 0",
        "max > 100 or (min < -1 and std == 1)",
        "max>1and min<0",
    ],
)
def test_these_hold_for_plain_values(text):
    assert holds(text)


@pytest.mark.parametrize(
    "text", ["max > 2", "max < 2 or min > 0", "not max == 2", "max == 2 and nan > 0", "1 / 0 > 0", "not 1 / 0 > 0"]
)
def test_these_do_not_hold_for_plain_values(text):
    assert not holds(text)


def test_functions_look_at_the_history_before_now():
    earlier = [sized(float(value)) for value in (9, 1, 2, 3, 4)]
    now = sized(10.0)
    for text in (
        "median(max, 4) == 2.5",
        "mean(max, 4) == 2.5",
        "min(max, 4) == 1",
        "max(max, 4) == 4",
        "max(max, 100) == 9",
        "previous(max) == 4",
        "previous(max, 5) == 9",
        "change(max) == 6",
        "change(max, 2) == 7",
        "max > 3 * median(max, 100)",
        "median(max - 1, 4) == 1.5",
        "median(abs(0 - max), 4) == 2.5",
    ):
        assert holds(text, now, *earlier), text


def test_without_history_nothing_holds_and_nothing_fails():
    for text in ("max > median(max, 9)", "not max > median(max, 9)", "change(max) > 0", "previous(max, 2) < max"):
        verdict = judged(text, sized(1.0))
        assert (verdict.held, verdict.error) == ({}, None)
    assert holds("max > 0 or max > median(max, 9)", sized(1.0))
    assert not holds("max > 0 and max > median(max, 9)", sized(1.0))


def test_earlier_values_that_are_missing_are_left_out():
    empty = Stats(count=3, nan=3)
    assert holds("median(max, 5) == 2", sized(1.0), sized(2.0), empty)
    assert not holds("median(max, 5) == 2", sized(1.0), empty)


def test_a_hit_names_the_comparisons_that_held_and_both_sides():
    assert judged("max > 1 and min < 0 or std > 5").held == {"max > 1": (2.0, 1.0), "min < 0": (-2.0, 0.0)}
    assert judged("not std > 5").held == {"not std > 5": (1.0, None)}


def test_counts_are_judged_where_nothing_is_finite_and_values_are_not():
    empty = Stats(count=3, nan=3)
    assert judged("nan > 2", empty).held == {"nan > 2": (3, 2.0)}
    assert judged("bad_percentage == 100", empty).held
    assert judged("max > 0", empty).error == "nan"
    assert judged("max > 0", Stats(count=0)).error == "no_value"
    assert judged("mean > 0.5", NAN).note == "judged on the finite 97 of 100 values (3 NaN)"
    assert judged("nan > 0", NAN).note == ""


def test_updates_need_the_value_before_the_step():
    expression = Expression("update_ratio > 0.1 and unchanged == 0")
    assert expression.needs() == Needs(change=True)
    assert Expression("max > 1").needs() == Needs()
    assert expression.judge(updated(0.2), History(), INFO).held
    assert expression.judge(plain(), History(), INFO).error == "no_prev"


def test_an_expression_asks_for_the_history_it_looks_at():
    assert Expression("max > median(max, 100) or max > previous(max, 200)").history == 200
    assert Expression("max > 1").history == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "position 1: expected a number"),
        ("max", "position 1: an expression must compare"),
        ("max >", "position 6: expected a number"),
        ("max > > 1", "position 7: expected a number"),
        ("max > 1 min", "position 9: expected the end"),
        ("maxi > 1", "position 1: there is no statistic 'maxi': did you mean 'max'"),
        ("medain(max, 3) > 1", "position 1: there is no function 'medain': did you mean 'median'"),
        ("median(max) > 1", r"median needs how many observations: median\(max, 100\)"),
        ("median(max, 0) > 1", "position 13: expected a whole number from 1 to 1000"),
        ("median(max, 1.5) > 1", "position 13: expected a whole number"),
        ("median(max, min) > 1", "position 13: expected a whole number"),
        ("median(median(max, 2), 2) > 1", "cannot stand inside another"),
        ("abs(max, 2) > 1", "abs takes one value"),
        ("(max > 1", r"the '\(' of position 1 is not closed"),
        ("max > 1)", "position 8: expected the end"),
        ("1 < max < 3", "one comparison at a time"),
        ("max and min > 1", "position 1: 'and' joins comparisons"),
        ("(max > 1) + 1 > 1", "needs a number, and this is a comparison"),
        ("max @ 1", "position 5: '@' has no meaning here"),
        ("max = 1", "position 5: '=' has no meaning here"),
        ("1e999 > max", "position 1: the number is too large"),
        ("__import__('os') > 1", 'position 12: "\'" has no meaning here'),
        ("max.real > 1", "position 4: '.' has no meaning here"),
        ("max ** 2 > 1", "position 6: expected a number"),
        ("[max][0] > 1", r"position 1: '\[' has no meaning here"),
        ("lambda > 1", "there is no statistic 'lambda'"),
        ("max > 1 " + "or max > 1 " * 90, "at most 1000 characters|at most 300 words"),
        ("(" * 40 + "max" + ")" * 40 + " > 1", "more than 30 levels deep"),
        ("-" * 40 + "max > 1", "more than 30 levels deep"),
        ("not " * 40 + "max > 1", "more than 30 levels deep"),
        ("+".join(["mean(max,9)"] * 25) + " > 1", "at most 20 functions over the history"),
    ],
)
def test_a_wrong_expression_is_refused_with_its_position(text, complaint):
    with pytest.raises(SpecError, match=complaint) as refused:
        Expression(text)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


@settings(deadline=None, max_examples=150, derandomize=True)
@given(text=st.text(max_size=40) | st.text("max(),<>=+-*/ 019.and or not median", max_size=40))
def test_any_text_is_read_or_refused_and_never_anything_else(text):
    try:
        verdict = judged(text, plain(), plain())
    except SpecError:
        return
    assert verdict.error is None


_NUMBERS = st.sampled_from(["max", "min", "mean", "abs_mean", "std", "2", "0.5", "3"])
_TREES = st.recursive(
    _NUMBERS,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner) | st.builds("-{}".format, inner)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=80, derandomize=True)
@given(left=_TREES, sign=st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), right=_TREES)
def test_arithmetic_agrees_with_python(left, sign, right):
    stats = plain()
    names = {name: getattr(stats, name) for name in ("max", "min", "mean", "abs_mean", "std")}
    text = f"{left} {sign} {right}"
    try:
        expected = eval(text, {"__builtins__": {}}, names)  # the test's own text
    except ZeroDivisionError:
        expected = False
    assert holds(text, stats) == expected


def test_overflow_and_roots_of_negative_numbers_are_no_value():
    assert not holds("sqrt(min) > 0 or log(0) < 0")
    assert holds("max * 1e308 * 10 > 1")  # infinite, as in any float arithmetic
    assert not holds("max * 1e308 * 10 - max * 1e308 * 10 == 0")  # NaN is no value
    assert math.isinf(judged("max * 1e308 * 10 > 1").held["max * 1e308 * 10 > 1"][0])
