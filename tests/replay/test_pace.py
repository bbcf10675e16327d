"""What a copy of the process is said to cost the training."""

from __future__ import annotations

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


def test_where_that_step_is_slept_through_the_fork_counts_several_times() -> None:
    clock = Clock()
    pace = trained(clock, 5)
    pace.forked(5, 0.5)
    assert not run(pace, clock, 40, 30.0)
    assert pace.cost > 2.0


def test_what_a_copy_has_used_itself_is_part_of_the_next_ones_cost() -> None:
    clock = Clock()
    pace = trained(clock, 5)
    pace.left(0.25)
    pace.forked(5, 0.5)
    assert run(pace, clock, 5, 3.0)
    assert pace.cost == 2.75
