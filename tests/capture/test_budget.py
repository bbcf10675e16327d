"""How deep each step is watched."""

from __future__ import annotations

import pytest

from tensight.capture.budget import BESIDE, FIRST, Budget
from tensight.records import Depth

COSTS = {Depth.ASLEEP: 0.0, Depth.LIGHT: 0.0001, Depth.GRADIENTS: 0.0004, Depth.ALL: 0.001}


def train(budget: Budget, steps: int, base: float, first: int = 0) -> list[Depth]:
    """The depths of so many steps of a training whose looks cost what COSTS says."""
    chosen: list[Depth] = []
    while len(chosen) < steps:
        step = first + len(chosen)
        depth = budget.next_depth(step)
        if depth is Depth.ASLEEP:
            length = budget.sleep_length(step)
            budget.slept(length, base * length)
            chosen += [depth] * length
        else:
            budget.finished(step, depth, base + COSTS[depth], COSTS[depth])
            chosen.append(depth)
    return chosen


def test_the_first_steps_are_always_watched_whole() -> None:
    assert set(train(Budget(1), FIRST, 0.001)) == {Depth.ALL}


def test_a_budget_of_100_watches_every_step_whole() -> None:
    assert set(train(Budget(100), 500, 0.001)) == {Depth.ALL}


def test_a_short_run_is_never_thinned() -> None:
    assert set(train(Budget(5), 200, 0.001)) == {Depth.ALL}


def test_when_costs_are_learnt_few_steps_are_looked_at_less() -> None:
    chosen = train(Budget(5), 450, 0.001)
    assert 0 < sum(depth is not Depth.ALL for depth in chosen) <= 30


@pytest.mark.parametrize("percent", [1, 5, 20])
@pytest.mark.parametrize("base", [0.001, 0.01, 0.1])
def test_the_cost_of_a_long_run_stays_inside_the_budget(percent: float, base: float) -> None:
    budget = Budget(percent, credit=0.0)
    chosen = train(budget, 5000, base)
    late = chosen[500:]
    cost = sum(COSTS[depth] for depth in late) / (base * len(late))
    assert cost <= percent / 100 + 0.002


def test_a_look_that_costs_little_is_never_left_out_to_learn_its_cost_early() -> None:
    assert set(train(Budget(5), 50, 1.0)) == {Depth.ALL}


def test_the_smallest_networks_are_slept_through_but_never_for_long() -> None:
    budget = Budget(5, credit=0.0)
    train(budget, 2000, 0.0005)
    lengths = [budget.sleep_length(step) for step in range(2000, 2100)]
    assert max(lengths) * 0.0005 <= 0.05


def test_what_an_ear_on_the_loss_costs_is_paid_out_of_the_budget() -> None:
    budget = Budget(5, credit=0.0)
    late = train(budget, 5000, 0.001)[500:]
    assert sum(COSTS[depth] for depth in late) / (0.001 * len(late)) <= 0.027


def test_where_each_step_has_to_be_heard_none_is_slept_through() -> None:
    budget = Budget(1, credit=0.0)
    budget.may_sleep = False
    assert Depth.ASLEEP not in train(budget, 500, 0.001)


def test_a_cheap_look_is_taken_at_every_step_but_one_in_a_hundred() -> None:
    budget = Budget(5, credit=0.0)
    chosen = train(budget, 1000, 1.0)
    assert sum(depth is not Depth.ALL for depth in chosen[100:]) <= 9


def test_after_trouble_steps_are_watched_whole_again() -> None:
    budget = Budget(1, credit=0.0)
    train(budget, 1000, 0.001)
    budget.trouble(1000)
    assert [budget.next_depth(step) for step in range(1001, 1005)] == [Depth.ALL] * 4


@pytest.mark.parametrize("light", [0.0001, 0.0005, 0.0008])
def test_a_light_look_at_each_longer_step_is_paid_by_the_deeper_ones(light: float) -> None:
    budget = Budget(5, credit=0.0)
    base, cost, chosen = 0.022, {Depth.LIGHT: light, Depth.GRADIENTS: 0.0015, Depth.ALL: 0.004}, []
    for step in range(3000):
        depth = budget.next_depth(step)
        budget.finished(step, depth, base + cost[depth], guess=cost[depth], inside=cost[depth] / BESIDE)
        chosen.append(depth)
    late = chosen[500:]
    assert Depth.ASLEEP not in late
    assert late.count(Depth.ALL) >= len(late) / 50
    assert sum(cost[depth] for depth in late) <= 0.0505 * base * len(late)


def test_what_was_left_out_is_said() -> None:
    budget = Budget(5, credit=0.0)
    train(budget, 1000, 0.001)
    assert "to hold a budget of 5 %" in budget.describe()
    assert budget.ratio == pytest.approx(1.05, abs=0.04)


@pytest.mark.parametrize("base", [0.002, 0.05])
def test_a_step_time_from_a_slow_moment_is_measured_again(base: float) -> None:
    """While the machine was slow a step by itself seemed to take longer than one that is watched whole later."""
    budget = Budget(5, credit=0.0)
    train(budget, 60, 100 * base)
    later = train(budget, 2000, base, first=60)
    whole = COSTS[Depth.ALL] * later.count(Depth.ALL) + COSTS[Depth.GRADIENTS] * later.count(Depth.GRADIENTS)
    assert whole < 0.06 * base * len(later)


def test_a_base_from_a_slow_moment_hides_nothing_where_the_time_inside_of_hooks_is_known() -> None:
    budget = Budget(5, credit=0.0)
    base, cost, chosen = 0.05, {Depth.LIGHT: 0.0002, Depth.GRADIENTS: 0.001, Depth.ALL: 0.006}, []
    for step in range(1000):
        depth = budget.next_depth(step)
        slow = 0.015 if 40 <= step < 75 else 0.0  # a neighbour is busy while costs are learnt
        budget.finished(step, depth, base + slow + cost[depth], guess=0.01, inside=0.8 * cost[depth])
        chosen.append(depth)
    late = chosen[100:]
    assert sum(cost[depth] for depth in late) <= 0.055 * base * len(late)
    assert late.count(Depth.ALL) >= len(late) / 10
    assert budget.ratio is not None
    assert budget.ratio == pytest.approx(1.05, abs=0.03)
