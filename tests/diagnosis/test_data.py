"""What the network is fed is wrong."""

from __future__ import annotations

import math

import pytest

from tensight.records import Module, Observation, Part, Source
from tests.diagnosis.builders import Layer, Run, constant, nan, stats


def test_inputs_that_are_all_zero_are_named() -> None:
    run = Run()
    run.input = constant(0.0)
    (finding,) = run.stall(30).end()
    assert (finding.fault, finding.since_step, finding.where.module) == ("constant_input", 0, "fc1")


def test_inputs_that_are_constant_in_one_step_only_are_fine() -> None:
    run = Run()
    run.input = constant(0.0)
    run.train(1.4)
    run.input = 1.0
    assert run.learn(20).faults() == []


def _guesses_after_huge_inputs(largest: float) -> Run:
    """The first update throws the weights far off, a ReLU dies, and what is left answers the same for everything."""
    run = Run(lr=0.01)
    run.input = stats(largest)
    run.layers[0].activation = "relu"
    run.layers[0].gradient = 1e6
    run.layers[0].update = 1e5
    run.train(1287.0)
    run.layers[0].active = run.layers[0].gradient = run.layers[0].update = 0.0
    return run.stall(60, loss=1.386)


def test_huge_inputs_after_which_the_network_only_guesses_are_named() -> None:
    (finding,) = _guesses_after_huge_inputs(6e4).end()
    assert (finding.fault, finding.since_step) == ("input_not_normalised", 0)
    assert any("dead" in line for line in finding.then)


def test_usual_inputs_are_not_blamed_for_a_network_that_only_guesses() -> None:
    assert "input_not_normalised" not in _guesses_after_huge_inputs(6.0).faults()


@pytest.mark.parametrize(("first", "met"), [("Linear", "fc1"), ("Embedding", "fc2")])
def test_huge_inputs_that_break_training_are_named_instead_of_what_follows(first: str, met: str) -> None:
    run = Run(lr=0.01, modules=[Module("fc1", first)])
    run.input = stats(6e4)
    for layer in run.layers:
        layer.gradient = 1e9
        layer.output = 1e5
        layer.update = 1e6
    run.train(1.1e7)
    for _ in range(12):
        run.train(1e33)
    (finding,) = run.end()
    assert (finding.fault, finding.since_step, finding.where.module) == ("input_not_normalised", 0, met)


def test_huge_inputs_that_do_no_harm_are_left_alone() -> None:
    run = Run()
    run.input = stats(6e4)
    assert run.learn(30).faults() == []


def _labels(run: Run, classes: list[int]) -> Run:
    assert run.loss_values is not None
    for at, label in enumerate(classes):
        run.loss_values |= {"target_distinct": 1, "target_min": label, "target_max": label, "target_entropy": 0.0}
        run.train(1.4 + 0.1 * math.sin(at))
    return run


def test_batches_of_one_class_in_order_are_sorted_data() -> None:
    run = Run()
    line = Source("train.py", 10, "loader = DataLoader(data, batch_size=32)")
    run.engine.part(Part("loader", "loader", "DataLoader", {"shuffle": False}, line))
    (finding,) = _labels(run, [0] * 8 + [1] * 8 + [2] * 8 + [3] * 8).end()
    assert (finding.fault, finding.since_step, finding.where.line) == ("unshuffled_sorted_by_class", 0, 10)


def test_labels_that_alternate_by_design_are_not_sorted() -> None:
    assert _labels(Run(), [0, 1] * 20).faults() == []


def test_labels_that_a_probe_finds_unrelated_are_named_when_the_loss_stays_at_chance() -> None:
    run = Run()
    run.scalars["probe/label_information"] = 0.0
    assert run.stall(150, loss=math.log(4)).faults() == ["labels_shuffled_against_inputs"]


def _stalled_regression(loss: float) -> list[str]:
    """The targets of the first batch are spread more than those of all the others."""
    run = Run()
    run.scalars["probe/label_information"] = 0.0
    assert run.loss_values is not None
    run.loss_values.update(function="mse_loss", target_shape="32", prediction_shape="32", target_variance=3.0)
    run.train(3.0)
    run.loss_values["target_variance"] = 2.0
    return run.stall(150, loss=loss).faults()


def test_what_guessing_gives_in_a_regression_is_told_by_more_than_one_batch() -> None:
    assert _stalled_regression(2.1) == ["labels_shuffled_against_inputs"]
    assert _stalled_regression(1.2) == []


def test_a_loss_at_chance_without_a_probe_is_not_judged() -> None:
    assert Run().stall(150, loss=math.log(4)).faults() == []


def test_a_nan_in_an_unused_part_of_the_input_is_no_fault() -> None:
    run = Run()
    run.input = nan(64, 1)
    assert run.learn(20).faults() == []


def two_inputs(run: Run, steps: int = 60, *, second: float = 0.0, loss: float = 1.4) -> list[str]:
    """A network that is also fed a second tensor."""
    for at in range(steps):
        seen = run.observations()
        other = run.tensor("input", "", "input.1", dtype="float32")
        seen.insert(1, Observation(other, 0, stats(second), "forward"))
        run.train(loss * (1 + 0.01 * math.sin(1.7 * at)), observations=seen)
    return run.faults()


def starved() -> Run:
    run = Run([Layer("own"), Layer("neigh"), Layer("head")])
    run.layers[1].output = constant(0.0)
    run.layers[1].gradient = constant(0.0)
    run.layers[1].update = 0.0
    return run


def test_one_input_of_two_that_is_empty_is_named_with_the_layer_that_lives_on_it() -> None:
    run = starved()
    assert two_inputs(run) == ["constant_input"]
    assert run.engine.findings[0].where.module == "neigh"


def test_a_state_that_starts_at_zero_has_no_finding() -> None:
    assert "constant_input" not in two_inputs(Run())


def test_an_input_that_varies_is_not_the_cause_of_a_layer_that_gives_zeros() -> None:
    assert "constant_input" not in two_inputs(starved(), second=1.0)


def test_labels_are_not_blamed_where_the_learning_rate_was_used_up_before() -> None:
    run = Run()
    run.scalars["probe/label_information"] = 0.0
    for at in range(150):
        run.lr = 0.1 * 0.7**at
        run.train(math.log(4) * (1 + 0.001 * math.sin(1.7 * at)))
    assert run.faults() == ["lr_decays_too_fast"]
