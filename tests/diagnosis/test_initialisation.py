"""Weights that start where they cannot learn."""

from __future__ import annotations

from tests.diagnosis.builders import Layer, Run, constant, stats


def test_layers_that_start_and_stay_at_zero_are_named() -> None:
    run = Run()
    for layer in run.layers:
        layer.weight = 0.0
        layer.start = constant(0.0, 256)
        layer.gradient = 0.0
        layer.update = 0.0
    (finding,) = run.stall(40).end()
    assert (finding.fault, finding.since_step) == ("zero_init", 0)
    assert finding.where.parameter == "fc1.weight"
    assert "zero" in finding.why


def test_one_number_in_two_layers_in_a_row_is_a_symmetry() -> None:
    run = Run()
    for layer in run.layers:
        layer.start = constant(0.5, 256)
    (finding,) = run.stall(40).end()
    assert (finding.fault, finding.where.parameter) == ("constant_init_symmetry", "fc1.weight")


def test_one_constant_layer_alone_is_no_symmetry() -> None:
    run = Run()
    run.layers[2].start = constant(0.5, 256)
    assert run.learn(30).faults() == []


def test_weights_far_too_large_with_saturated_units_are_named() -> None:
    run = Run([Layer("fc1", weight=8.0), Layer("fc2", weight=8.0), Layer("head", weight=8.0)])
    run.layers[0].activation = "tanh"
    run.layers[0].active = stats(0.98)
    (finding,) = run.stall(40, loss=44.0).end()
    assert (finding.fault, finding.since_step) == ("huge_init", 0)
    assert "saturated" in finding.why


def test_large_weights_that_do_no_harm_are_left_alone() -> None:
    run = Run([Layer("fc1", weight=2.0), Layer("fc2"), Layer("head")])
    assert run.learn(30).faults() == []
