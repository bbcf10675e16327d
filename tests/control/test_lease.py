"""How long a paused training waits, by itself: any order of looks, commands and time."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tensight.control.lease import LEAVE, Lease, patience

EVENTS = st.lists(st.tuples(st.sampled_from(["open", "closed", "command"]), st.floats(0, 100)), max_size=30)


def test_who_has_not_come_is_not_gone() -> None:
    assert Lease(10.0).at(0.0, there=False).left(1e9) == math.inf


def test_a_page_that_comes_back_begins_the_time_anew() -> None:
    lease = Lease(10.0, seen=0.0)
    assert lease.left(9.0) == 1.0
    lease = lease.at(9.0, there=True).at(50.0, there=False)
    assert lease.left(59.0) == 1.0
    assert lease.left(61.0) < 0


def test_a_command_without_a_page_begins_the_time_anew() -> None:
    assert Lease(10.0, seen=0.0).spoken(8.0).left(17.0) == 1.0


def test_the_time_is_the_users() -> None:
    assert patience({"TENSIGHT_LEAVE": "-3"}) == 0.0
    assert patience({"TENSIGHT_LEAVE": "inf"}) == math.inf
    assert patience({"TENSIGHT_LEAVE": "nan"}) == LEAVE


@given(EVENTS)
def test_a_pause_is_over_when_nobody_was_there_for_its_time_and_never_before(events: list[tuple[str, float]]) -> None:
    lease, now, seen = Lease(60.0, seen=0.0), 0.0, 0.0
    opened = False
    for what, passed in events:
        now += passed
        if opened:
            seen = now
        if what == "command":
            lease, seen = lease.spoken(now), now
        else:
            opened = what == "open"
            lease = lease.at(now, there=opened)
            seen = now if opened else seen
        if opened:
            assert lease.left(now + 1e6) == math.inf
        else:
            assert lease.left(now) == 60.0 - (now - seen)
