"""Corners of conditions that hardly any tensor comes to."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tensight.errors import SpecError
from tensight.records import Change, Observation, Stats, TensorInfo
from tensight.watchpoints import healthy, limits, spec
from tensight.watchpoints.catalogue import find
from tensight.watchpoints.checker import Checker
from tensight.watchpoints.condition import History
from tensight.watchpoints.expression import Expression
from tensight.watchpoints.healthy import never_watched
from tensight.watchpoints.parser import LONGEST
from tensight.watchpoints.surroundings import Surroundings
from tests.watchpoints.records import NAN, ZEROS, Training, plain, sized, tensor

NOTHING = History((), ())


def judged(code: str, now: Stats, history: History = NOTHING, info: TensorInfo | None = None, **given: float):
    return find(code)(**given).judge(now, history, info or tensor())


def test_a_value_below_the_range_of_its_type_has_overflowed() -> None:
    info = tensor(kind="operator", dtype="float16")
    now = Stats(count=2, negative=2, min=-1e6, max=-1.0, mean=-5e5, abs_mean=5e5)
    assert list(judged("OO", now, info=info).held) == ["min"]


def test_a_trend_without_a_value_or_through_zero_is_none() -> None:
    assert not judged("DR", plain(abs_mean=None)).held
    flat = History((0, 1, 2, 3), tuple(sized(0.0) for _ in range(4)))
    assert not judged("DR", sized(0.0), flat, window=4).held


@pytest.mark.parametrize("code", ["UR", "UL"])
def test_an_update_of_which_nothing_is_known_is_not_judged(code: str) -> None:
    info = tensor(kind="weight")
    assert judged(code, plain(), info=info).error == "no_prev"


def test_an_update_far_smaller_than_its_weight_is_said() -> None:
    now = plain(change=Change(100, 1e-12, 1e-12, 1.0, 0, 1, 0.0, 0.0))
    before = History(tuple(range(9)), (now,) * 9)
    assert list(judged("UR", now, before, info=tensor(kind="weight")).held) == ["ratio_lt"]


def test_gradients_of_integers_do_not_underflow() -> None:
    assert not judged("GU", plain(), info=tensor(kind="gradient", dtype="int64")).held


def test_zeros_of_a_buffer_and_of_an_operator_are_usual() -> None:
    assert never_watched("TZ", tensor(kind="buffer")) == "a buffer may be zero"
    assert "on purpose" in never_watched("TZ", tensor(kind="operator", slot="output.0"))


def test_a_limit_that_does_not_exist_is_named() -> None:
    with pytest.raises(SpecError, match="there is no limit 'soon'"):
        limits.checked(soon=1)


def test_an_expression_of_absurd_length_is_refused() -> None:
    with pytest.raises(SpecError, match="at most"):
        Expression("max > 1 or " * LONGEST + "max > 1")


def test_what_follows_a_false_part_is_not_asked() -> None:
    assert not Expression("max < 0 and 1 / 0 > 0").judge(plain(), NOTHING, tensor()).held


def test_a_sum_beyond_all_floats_is_no_value() -> None:
    huge = History((0, 1), (sized(1.7e308), sized(1.7e308)))
    assert not Expression("max > mean(max, 2)").judge(sized(1.0), huge, tensor()).held


def test_a_quoted_name_that_is_none_is_refused() -> None:
    with pytest.raises(SpecError, match="is not a quoted text"):
        spec.parse('TO on weight:* name="a\\x"', 1)


def test_more_watchpoints_than_anybody_writes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "watch.toml"
    path.write_text("watch = [" + '"TO",' * (spec.MOST + 1) + "]")
    with pytest.raises(SpecError, match=f"more than {spec.MOST} watchpoints"):
        spec.load(path)


def test_what_has_no_finite_value_has_no_greatest() -> None:
    from tensight.watchpoints.thresholds import abs_max

    assert abs_max(Stats(count=3, nan=3)) is None
    assert abs_max(ZEROS) == 0
    assert math.isclose(abs_max(plain()) or 0.0, 2.0)


def test_a_checker_that_nobody_listens_to_goes_on_without_the_condition_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(find("TL"), "gate", fail)
    checker = Checker([find("TL")(mean_gt=0.5).watchpoint(1), find("TO")().watchpoint(2)])
    assert [hit.condition for hit in Training(checker, tensor()).step(NAN)] == ["TO"]


def test_a_gradient_as_small_as_its_weight_has_not_vanished() -> None:
    weight, gradient = tensor(1, "weight"), tensor(2, "gradient")
    other = tensor(3, "gradient", node="tail")
    seen = [Observation(1, 0, sized(1e-9)), Observation(2, 1, sized(1e-11)), Observation(3, 2, sized(1.0))]
    around = Surroundings(0, seen, {one.id: one for one in (weight, gradient, other)}, updates=1)
    assert healthy._vanishing(gradient, sized(1e-11), around) == "the weight is as small"


def test_a_weight_of_which_no_change_is_known_is_not_explained_away() -> None:
    assert healthy._changed_much(tensor(kind="weight"), plain(), Surroundings(0, [], {})) == ""
