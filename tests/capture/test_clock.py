"""When a step ends."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tensight.capture.clock import PATIENCE, Clock


def trained(*names: str) -> Clock:
    clock = Clock()
    for name in names:
        clock.optimizer(name)
    return clock


def test_with_one_optimizer_each_of_its_steps_ends_a_step() -> None:
    clock = trained("A")
    assert [clock.updated("A") for _ in range(3)] == [[1], [1], [1]]


def test_backward_passes_between_two_steps_are_micro_steps() -> None:
    clock = trained("A")
    clock.backward()
    clock.backward()
    assert clock.backwards == 2
    clock.updated("A")
    assert clock.backwards == 0


def test_with_two_optimizers_a_step_ends_when_the_last_has_stepped() -> None:
    clock = trained("D", "G")
    assert [clock.updated(name) for name in "DGDG"] == [[], [2], [], [2]]


def test_several_steps_of_one_optimizer_in_a_round_are_one_step() -> None:
    clock = trained("D", "G")
    clock.updated("D")
    clock.updated("G")
    assert [clock.updated(name) for name in "DDG"] == [[], [], [3]]


def test_an_optimizer_that_is_never_used_holds_nothing_up() -> None:
    clock = trained("A", "unused")
    assert [clock.updated("A") for _ in range(PATIENCE)] == [[]] * PATIENCE
    assert clock.updated("A") == [1, 2, 3, 4, 5, 6]
    assert clock.updated("A") == [1]


def test_when_the_run_ends_nobody_waits_for_an_optimizer_that_never_stepped() -> None:
    clock = trained("A", "unused")
    assert [clock.updated("A") for _ in range(3)] == [[], [], []]
    assert clock.over() == [1, 2, 3]
    clock = trained("D", "G", "unused")
    assert [clock.updated(name) for name in "DGD"] == [[], [], []]
    assert clock.over() == [2, 3]


def test_a_replaced_optimizer_is_given_up_and_no_step_is_lost() -> None:
    clock = trained("old")
    assert clock.updated("old") == [1]
    clock.optimizer("new")
    ends = [clock.updated("new") for _ in range(6)]
    assert sum(len(end) for end in ends) == 6


def steps_of(order: str) -> int:
    clock = trained(*sorted(set(order)))
    return sum(len(clock.updated(name)) for name in order)


def test_a_generator_that_steps_after_five_updates_of_its_critic_ends_each_round() -> None:
    assert 100 <= steps_of("DDDDDG" * 100) <= 110  # the first rounds show the rhythm


def test_rounds_of_a_critic_count_from_the_first() -> None:
    for critic in range(1, PATIENCE + 1):
        assert steps_of(("D" * critic + "G") * 6) == 6
        assert steps_of("DG" + ("D" * critic + "G") * 6) == 7  # `if step % critic == 0`


def test_optimizers_that_take_turns_in_long_phases_make_a_step_with_each_update() -> None:
    assert steps_of(("A" * 20 + "B" * 20) * 5) == 200


def test_an_optimizer_that_steps_once_in_an_epoch_does_not_make_the_epoch_a_step() -> None:
    assert steps_of(("A" * 200 + "B") * 5) >= 995


def test_without_training_each_call_of_the_model_is_a_step() -> None:
    clock = Clock()
    ends = []
    for _ in range(3):
        ends += clock.forward()
        clock.forwarded()
    assert ends == [0, 0]
    assert clock.pending()


def test_calls_before_a_training_that_may_come_are_no_steps_yet() -> None:
    clock = trained("A")
    for _ in range(3):
        assert clock.forward() == []
        clock.forwarded()
        assert clock.undecided
    clock.backward()
    assert not clock.undecided
    assert clock.updated("A") == [1]
    clock.forwarded()
    assert not clock.undecided


def test_a_forward_before_the_first_backward_is_no_step_of_its_own() -> None:
    clock = Clock()
    clock.forward()
    clock.forwarded()
    clock.backward()
    assert clock.forward() == []
    assert clock.weights_changed() == [0]


def test_evaluation_inside_training_ends_no_step() -> None:
    clock = trained("A")
    clock.updated("A")
    for _ in range(5):
        assert clock.forward() == []
        clock.forwarded()


def test_weights_moved_beside_an_optimizer_end_no_step() -> None:
    clock = trained("A")
    clock.updated("A")
    assert clock.weights_changed() == []


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.lists(st.sampled_from("ABC"), max_size=60))
def test_ends_are_ordered_and_never_exceed_the_updates(names: list[str]) -> None:
    clock = trained("A", "B", "C")
    open_updates = 0
    for name in names:
        open_updates += 1
        ends = clock.updated(name)
        assert ends == sorted(set(ends))
        assert all(0 < end <= open_updates for end in ends)
        if ends:
            open_updates -= ends[-1]


def test_networks_that_are_trained_one_after_the_other_do_not_wait_for_each_other() -> None:
    clock, told = Clock(), []
    for name in ("SGD", "SGD-2", "SGD-3"):
        clock.optimizer(name)
        for _ in range(4):
            told += [name] * len(clock.updated(name))
    assert told == ["SGD"] * 4 + ["SGD-2"] * 4 + ["SGD-3"] * 4
