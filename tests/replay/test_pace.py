"""What a copy of the process is said to cost the training."""

from __future__ import annotations

import mmap

import pytest

from tensight.replay import pages
from tensight.replay.copying import Woken, make_copy
from tensight.replay.pace import Pace


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def run(pace: Pace, clock: Clock, step: int, seconds: float) -> bool:
    clock.now += seconds
    known = pace.ended(step)
    pace.go_on()
    return known


def trained(clock: Clock, steps: int) -> Pace:
    pace = Pace(clock)
    pace.go_on()
    for step in range(steps):
        run(pace, clock, step, 1.0)
    return pace


def test_the_step_behind_a_fork_is_compared_with_the_others() -> None:
    clock = Clock()
    pace = trained(clock, 5)
    pace.forked(5, 0.5)
    assert run(pace, clock, 5, 3.0)
    assert pace.cost == 2.5


def test_until_that_is_known_every_page_of_the_process_counts() -> None:
    clock = Clock()
    pace = trained(clock, 5)
    pace.forked(5, 0.5, page=0.001)
    assert not run(pace, clock, 40, 30.0)  # the steps behind the fork were slept through
    assert pace.expected(4000) == pytest.approx(4.5)
    pace.forked(41, 0.5, page=0.001)
    run(pace, clock, 41, 3.0)
    assert pace.expected(4000) == pytest.approx(2.5)


def test_what_a_copy_has_used_itself_is_part_of_the_next_ones_cost() -> None:
    clock = Clock()
    pace = trained(clock, 5)
    pace.left(0.25)
    pace.forked(5, 0.5)
    assert run(pace, clock, 5, 3.0)
    assert pace.cost == 2.75


def test_a_page_costs_more_when_a_copy_shares_it() -> None:
    with pages.Sample() as sample:
        alone = min(sample.price() for _ in range(5))
        made = make_copy(0)
        if isinstance(made, Woken):
            made.leave(b"")
        shared = sample.price()
        made.end()
    assert shared > 2 * alone


def test_memory_of_ones_own_is_counted_in_pages() -> None:
    before, written = pages.private(), pages.written()
    held = bytearray(64 << 20)
    held[:: mmap.PAGESIZE] = b"x" * len(range(0, len(held), mmap.PAGESIZE))
    assert pages.private() - before > 0.9 * len(held) / mmap.PAGESIZE
    assert pages.written() - written > 0.9 * len(held) / mmap.PAGESIZE
