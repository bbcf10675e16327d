"""Trainings that look odd and are fine: nothing may be said of them."""

from __future__ import annotations

import math

from tensight.records import Event, Module, Observation
from tests.diagnosis.builders import BACKWARD_LINE, LOSS_LINE, STEP_LINE, Layer, Run, constant, nan, stats


def test_a_training_that_learns_has_no_finding() -> None:
    assert Run().learn(60).faults() == []


def test_a_training_that_has_converged_has_no_finding() -> None:
    run = Run()
    for layer in run.layers:
        layer.gradient = 1e-7
        layer.update = 1e-8
    assert run.stall(60, loss=0.001).faults() == []


def test_a_warm_up_from_zero_has_no_finding() -> None:
    run = Run(lr=0.0)
    for at in range(40):
        run.lr = 0.1 * at / 400
        for layer in run.layers:
            layer.update = 1e-7 * at
        run.train(1.4)
    assert run.faults() == []


def test_a_schedule_that_ends_at_zero_has_no_finding() -> None:
    run = Run()
    for at in range(60):
        run.lr = 0.1 * 0.5 * (1 + math.cos(math.pi * at / 59))
        run.train(1.4 - at / 60)
    assert run.faults() == []


def test_a_zero_initialised_residual_gate_has_no_finding() -> None:
    run = Run()
    run.layers[1].start = constant(0.0, 256)
    run.layers[1].weight = 0.01
    assert run.learn(30).faults() == []


def test_an_unused_head_has_no_finding() -> None:
    run = Run([Layer("trunk"), Layer("head"), Layer("other_head")])
    run.layers[2].called = False
    run.layers[2].gradient = None
    run.layers[2].update = 0.0
    assert run.learn(30).faults() == []


def test_a_head_that_runs_but_is_not_in_the_loss_has_no_finding() -> None:
    run = Run([Layer("trunk"), Layer("aux_head"), Layer("head")])
    run.layers[1].gradient = None
    run.layers[1].update = 0.0
    assert run.learn(30).faults() == []


def test_a_frozen_backbone_has_no_finding() -> None:
    run = Run([Layer("backbone.0"), Layer("backbone.1"), Layer("head")])
    for layer in run.layers[:2]:
        layer.trainable = False
        layer.gradient = None
        layer.update = 0.0
    run.tell_network()
    assert run.learn(60).faults() == []


def test_a_backbone_left_out_of_the_optimizer_has_no_finding() -> None:
    layers = [Layer("backbone"), Layer("head")]
    layers[0].held = False
    layers[0].update = 0.0
    assert Run(layers).learn(30).faults() == []


def test_overflows_that_a_scaler_answers_are_no_trouble() -> None:
    run = Run()
    run.engine.part(run.engine.case.parts["optimizer", "SGD"])
    scale = 65536.0
    for at in range(40):
        overflow = at in (0, 1, 30)
        run.layers[0].gradient = nan(256) if overflow else 0.01
        for layer in run.layers:
            layer.update = 0.0 if overflow else 1e-3
        events = run.events()
        events[-1] = Event("optimizer_step", part="SGD", values={"lr": 0.1, "skipped": overflow})
        scale = scale / 2 if overflow else scale
        run.scalars["scale"] = scale
        events.append(Event("scale", part="scaler", values={"scale": scale, "overflow": overflow}))
        run.train(1.4 - at / 50, events=events)
    assert run.faults() == []


def test_a_nan_that_never_reaches_the_loss_is_no_trouble() -> None:
    run = Run()
    run.layers[0].output = nan(64, 3)
    assert run.learn(20).faults() == []


def test_two_networks_in_turn_do_not_look_like_lost_gradients() -> None:
    run = Run()
    run.learn(5)
    for _ in range(30):
        events = [
            Event("zero_grad", part="SGD"),
            Event("backward", part="net", values={"cleared": True}, source=BACKWARD_LINE),
            Event("optimizer_step", part="SGD", values={"lr": 0.1}, source=STEP_LINE),
            Event("zero_grad", part="Adam"),
            Event("backward", part="generator", values={"cleared": True}, source=LOSS_LINE),
            Event("optimizer_step", part="Adam", values={"lr": 0.1}),
        ]
        run.train(1.0, events=events)
    assert run.faults() == []


def test_adversarial_inputs_made_by_a_backward_of_their_own_are_no_lost_gradients() -> None:
    run = Run()
    for at in range(20):
        attack = [
            Event("backward", part="net", values={"cleared": True}, source=LOSS_LINE),
            Event("zero_grad", part="SGD"),
        ] * 7
        run.train(1.4 - at / 40, events=[*attack, *run.events()])
    assert run.faults() == []


def test_gradient_accumulation_that_divides_its_loss_has_no_finding() -> None:
    run = Run()
    for at in range(30):
        loss = 1.4 - at / 60
        assert run.loss_values is not None
        run.loss_values["value"] = loss
        first, *_, last = run.events()
        backward = Event("backward", part="net", values={"cleared": False}, source=BACKWARD_LINE)
        loss_event = Event("loss", part="loss", values=dict(run.loss_values), source=LOSS_LINE)
        events = [Event("zero_grad", part="SGD")] + [first, loss_event, backward] * 8 + [last]
        run.train(loss / 8, events=events, losses=[loss / 8] * 8)
    assert run.faults() == []


def test_a_teacher_that_changes_outside_updates_has_no_finding() -> None:
    layers = [Layer("student"), Layer("teacher")]
    layers[1].held = False
    layers[1].gradient = None
    layers[1].update = 1e-4
    assert Run(layers).learn(30).faults() == []


def test_a_relu_in_the_loss_may_rest_at_zero() -> None:
    run = Run()
    run.layers[-1].activation = "relu"
    run.layers[-1].active = 0.0
    for layer in run.layers:
        layer.gradient = 0.0
    assert run.stall(20, loss=0.0).faults() == []


def test_a_model_in_evaluation_between_training_steps_has_no_finding() -> None:
    run = Run(modules=[Module("drop", "Dropout", settings={"p": 0.5})])
    for at in range(30):
        evaluation = [Event("mode", part="net", values={"node": "", "training": False})]
        evaluation.append(Event("forward", part="net", values={"training": False, "grad": True}))
        run.train(1.4 - at / 60, events=[*evaluation, *run.events()] if at % 5 == 0 else None)
    assert run.faults() == []


def test_a_rare_class_is_no_sorted_data() -> None:
    run = Run()
    assert run.loss_values is not None
    for at in range(40):
        alone = at % 10 != 0
        run.loss_values |= {"target_distinct": 1 if alone else 2, "target_min": 0, "target_max": 0 if alone else 1}
        run.train(0.5 - at / 100)
    assert run.faults() == []


def test_a_loss_spike_that_is_recovered_from_has_no_finding() -> None:
    run = Run()
    run.learn(20)
    run.layers[0].update = 0.6
    run.train(30.0)
    run.layers[0].update = 1e-3
    assert run.learn(20, 0.5, 0.2).faults() == []


def test_bfloat16_weights_that_mostly_move_have_no_finding() -> None:
    layers = [Layer("fc1", dtype="bfloat16"), Layer("fc2", dtype="bfloat16")]
    for layer in layers:
        layer.equal = 0.4
    assert Run(layers).learn(30).faults() == []


def test_evaluation_losses_without_growth_of_graphs_have_no_finding() -> None:
    run = Run()
    run.scalars["graphs_alive"] = 2.0
    assert run.learn(20).faults() == []


def test_an_input_state_of_zeros_beside_real_inputs_has_no_finding() -> None:
    run = Run()
    for at in range(20):
        seen = run.observations()
        state = run.tensor("input", "", "input.1", dtype="float32")
        seen.append(Observation(state, len(seen), stats(0)))
        run.train(1.4 - at / 40, observations=seen)
    assert run.faults() == []
