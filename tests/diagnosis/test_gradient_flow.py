"""Gradients that vanish, explode or die."""

from __future__ import annotations

import math

from tensight.records import Event, Observation, Source
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


def test_an_update_long_before_a_relu_died_is_not_when_it_died() -> None:
    run = Run()
    run.layers[0].activation = run.layers[1].activation = "relu"
    usual = run.layers[0].update
    run.layers[0].update = 0.7
    run.learn(2)
    run.layers[0].update = usual
    run.learn(60)
    for layer in run.layers[:2]:
        layer.active = 0.0
        layer.gradient = 0.0
    (finding,) = run.stall(40, loss=1.1).end()
    assert (finding.fault, finding.since_step) == ("dead_relu", 62)


def _ends_in_relu(*, loss: float, gradient: float) -> Run:
    """The last layer's ReLU is zero for every sample."""
    run = Run()
    run.learn(3)
    run.layers[-1].activation = "relu"
    run.layers[-1].active = 0.0
    for layer in run.layers:
        layer.gradient = gradient
    run.layers[-1].gradient = 0.0
    return run.stall(40, loss=loss)


def test_a_dead_relu_at_the_end_of_a_model_silences_all_of_it() -> None:
    (finding,) = _ends_in_relu(loss=1.1, gradient=0.0).end()
    assert (finding.fault, finding.where.module) == ("dead_relu", "head")
    assert "after the last layer" in finding.fix[0]


def test_a_relu_that_rests_at_zero_when_the_loss_is_gone_is_fine() -> None:
    assert "dead_relu" not in _ends_in_relu(loss=0.0, gradient=0.0).faults()


def test_a_relu_at_one_of_several_ends_does_not_silence_the_rest() -> None:
    assert "dead_relu" not in _ends_in_relu(loss=1.1, gradient=0.01).faults()


def test_a_sparse_relu_layer_is_not_dead() -> None:
    run = Run()
    run.layers[0].activation = "relu"
    run.layers[0].active = stats(0.1, 1000, zero=990)
    assert run.stall(40, loss=1.1).faults() == []


def _grows_by_layer(first_loss: float) -> Run:
    """Each of ten layers enlarges the signal three times; the loss falls from there."""
    run = Run([Layer(f"block{at}") for at in range(10)])
    for at, layer in enumerate(run.layers):
        layer.output, layer.gradient = 3.0**at, 1e4
    for at in range(20):
        run.train(first_loss * (1 - at / 30))
    return run


def test_a_signal_that_grows_by_layers_is_named_though_the_loss_falls_from_an_absurd_start() -> None:
    (finding,) = _grows_by_layer(2e5).end()
    assert (finding.fault, finding.since_step) == ("exploding_gradient", 0)
    assert "times over all of them" in finding.why


def test_a_signal_that_grows_by_layers_and_starts_like_guessing_is_left_alone() -> None:
    assert "exploding_gradient" not in _grows_by_layer(1.4).faults()


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


def _exp_between(largest: float, first_loss: float = 9e13) -> Run:
    """The values of the second layer are huge from the first step on, and exp gave `largest` in between."""
    run = Run([Layer("logvar"), Layer("decoder"), Layer("out")])
    run.layers[1].output = run.layers[2].output = 1e9
    for layer in run.layers:
        layer.gradient = 1e12
    line = Source("train.py", 12, "z = mu + eps * torch.exp(logvar)")
    values = {"function": "exp", "given": 21.0, "largest": largest, "module": ""}
    told = Event("grown", part="net", values=values, source=line)
    run.train(first_loss, events=[*run.events(), told])
    for layer in run.layers:
        layer.output, layer.gradient = 1.0, 1.0
    for at in range(10):
        run.train(first_loss / 10**at)
    return run


def test_what_exp_has_made_huge_is_not_blamed_on_the_module_after_it() -> None:
    (finding,) = _exp_between(1.3e9).end()
    assert (finding.fault, finding.since_step) == ("exploding_activation", 0)
    assert (finding.where.op, finding.where.line) == ("exp", 12)


def test_a_module_that_grows_by_itself_is_named_though_an_exp_beside_it_is_large() -> None:
    (finding,) = _exp_between(4e3).end()
    assert (finding.fault, finding.where.module) == ("exploding_gradient", "decoder")


def test_an_exp_that_is_large_where_the_loss_begins_as_it_should_is_fine() -> None:
    assert "exploding_activation" not in _exp_between(1.3e9, 1.4).faults()


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


def _state_that_grows(growth: float, end: float) -> Run:
    """A cell that is called twenty times in a step, each time with a larger result; the loss falls to `end`."""
    run = Run([Layer("cell"), Layer("out")])
    run.layers[0].gradient, run.layers[0].called = 20.0, False
    cell = run.tensor("output", "cell", "output.0", dtype="float32", type="RNNCell")
    for at in range(100):
        usual = run.observations()
        calls = [Observation(cell, len(usual) + n, stats(0.1 * growth**n), "forward") for n in range(20)]
        run.train(max(end, 14.0 - at), observations=[*usual, *calls])
    return run


def test_a_state_that_grows_over_time_is_named_where_nothing_is_learnt_after() -> None:
    (finding,) = _state_that_grows(1.2, 1.4).end()
    assert (finding.fault, finding.since_step, finding.where.module) == ("exploding_gradient", 0, "cell")
    assert "from time step to time step" in finding.why


def test_a_state_that_grows_or_hardly_does_is_fine_where_much_is_learnt_after() -> None:
    assert _state_that_grows(1.2, 0.3).faults() == []
    assert "exploding_gradient" not in _state_that_grows(1.02, 1.4).faults()
