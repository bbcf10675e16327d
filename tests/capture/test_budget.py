"""How deep each step is watched."""

from __future__ import annotations

import pytest

from tensight.capture.budget import FIRST, Budget
from tensight.records import Depth


def train(budget: Budget, steps: int, base: float, cost: dict[Depth, float]) -> list[Depth]:
    chosen = []
    for step in range(steps):
        depth = budget.next_depth(step)
        chosen.append(depth)
        budget.finished(step, depth, base + cost[depth])
    return chosen


COSTS = {Depth.LIGHT: 0.0, Depth.GRADIENTS: 0.0004, Depth.ALL: 0.001}


def test_the_first_steps_are_always_watched_whole() -> None:
    assert set(train(Budget(1), FIRST, 0.001, COSTS)) == {Depth.ALL}


def test_a_budget_of_100_watches_every_step_whole() -> None:
    assert set(train(Budget(100), 500, 0.001, COSTS)) == {Depth.ALL}


def test_a_short_run_is_never_thinned_but_for_a_few_steps_that_learn_the_cost() -> None:
    chosen = train(Budget(5), 200, 0.001, COSTS)
    assert sum(depth is not Depth.ALL for depth in chosen) <= 4


@pytest.mark.parametrize("percent", [1, 5, 20])
@pytest.mark.parametrize("base", [0.001, 0.01, 0.1])
def test_the_cost_of_a_long_run_stays_inside_the_budget(percent: float, base: float) -> None:
    budget = Budget(percent, credit=0.0)
    chosen = train(budget, 5000, base, COSTS)
    late = chosen[500:]
    cost = sum(COSTS[depth] for depth in late) / (base * len(late))
    assert cost <= percent / 100 + 0.002


def test_a_cheap_look_is_taken_at_every_step() -> None:
    budget = Budget(5, credit=0.0)
    chosen = train(budget, 300, 1.0, COSTS)
    assert all(depth is Depth.ALL for depth in chosen[20:])


def test_after_trouble_steps_are_watched_whole_again() -> None:
    budget = Budget(1, credit=0.0)
    train(budget, 1000, 0.001, COSTS)
    budget.trouble(1000)
    assert [budget.next_depth(step) for step in range(1001, 1005)] == [Depth.ALL] * 4


def test_what_was_left_out_is_said() -> None:
    budget = Budget(5, credit=0.0)
    train(budget, 1000, 0.001, COSTS)
    assert "to hold a budget of 5 %" in budget.describe()
    assert budget.ratio == pytest.approx(1.05, abs=0.03)
