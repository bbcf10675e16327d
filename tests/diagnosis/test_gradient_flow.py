"""Gradients that vanish, explode or die."""

from __future__ import annotations

import math

from tests.diagnosis.builders import Layer, Run, nan, stats


def _deep(count: int = 8, kind: str = "sigmoid") -> Run:
    run = Run([Layer(f"{2 * i}") for i in range(count)])
    for layer in run.layers[:-1]:
        layer.activation = kind
    return run


def test_gradients_that_shrink_layer_by_layer_are_named_at_the_first_layer() -> None:
    run = _deep()
    for at, layer in enumerate(reversed(run.layers)):
        layer.gradient = 0.1 * 0.1**at
    (finding,) = run.stall(40, loss=0.69).end()
    assert (finding.fault, finding.since_step) == ("vanishing_gradient", 0)
    assert finding.where.parameter == "0.weight"
    assert finding.where.op == "sigmoid"


def test_a_signal_that_dies_out_in_every_layer_is_vanishing_too() -> None:
    run = _deep(kind="tanh")
    for layer in run.layers:
        layer.gradient = 1e-17
        layer.update = 1e-12
    assert run.stall(40, loss=1.39).faults() == ["vanishing_gradient"]


def test_gradients_that_are_gone_because_the_loss_is_are_fine() -> None:
    run = _deep(kind="tanh")
    for layer in run.layers:
        layer.gradient = 1e-17
        layer.update = 1e-12
    assert run.stall(40, loss=1e-6).faults() == []


def test_small_first_gradients_are_fine_while_the_loss_falls() -> None:
    run = _deep()
    for at, layer in enumerate(reversed(run.layers)):
        layer.gradient = 0.1 * 0.1**at
    assert run.learn(40).faults() == []


def test_one_odd_layer_with_a_tiny_gradient_is_not_vanishing() -> None:
    run = _deep()
    run.layers[0].gradient = 1e-9
    run.layers[3].gradient = 1.0
    run.layers[4].gradient = 0.001
    run.layers[5].gradient = 0.0001
    run.layers[6].gradient = 0.00005
    assert run.stall(40, loss=0.69).faults() == []


def test_a_relu_layer_that_died_is_named_since_its_first_dead_step() -> None:
    run = Run()
    run.layers[0].activation = run.layers[1].activation = "relu"
    run.train(12.0)
    for layer in run.layers[:2]:
        layer.active = 0.0
        layer.gradient = 0.0
    (finding,) = run.stall(40, loss=1.1).end()
    assert (finding.fault, finding.since_step) == ("dead_relu", 1)
    assert finding.where.module == "fc1"


def test_a_sparse_relu_layer_is_not_dead() -> None:
    run = Run()
    run.layers[0].activation = "relu"
    run.layers[0].active = stats(0.1, 1000, zero=990)
    assert run.stall(40, loss=1.1).faults() == []


def test_a_signal_that_explodes_before_any_update_is_the_networks_fault() -> None:
    run = Run([Layer("rnn"), Layer("out")])
    run.layers[0].output = 1e7
    run.layers[1].output = 1e7
    for layer in run.layers:
        layer.gradient = 1e12
    run.train(9e13)
    for layer in run.layers:
        layer.output = layer.gradient = nan()
    for _ in range(10):
        run.train(math.nan)
    (finding,) = run.end()
    assert (finding.fault, finding.since_step, finding.where.module) == ("exploding_gradient", 0, "rnn")


def test_gradients_that_explode_late_under_small_updates_are_named() -> None:
    run = Run()
    run.learn(20)
    for layer in run.layers:
        layer.gradient = 1e4
    run.train(0.5)
    for layer in run.layers:
        layer.gradient = nan()
    run.train(math.nan)
    (finding,) = run.end()
    assert (finding.fault, finding.since_step) == ("exploding_gradient", 20)


def test_large_gradients_that_are_clipped_and_learn_have_no_finding() -> None:
    run = Run()
    for layer in run.layers:
        layer.gradient = 1e4
    assert run.learn(40).faults() == []
