"""Formats, evaluation, signs, tiny weights, saturation, layers that nobody knows."""

from __future__ import annotations

from typing import Any

import pytest

from tensight.records import Event, Module, Observation, Source
from tests.diagnosis.builders import Layer, Run, stats

LINE = Source("train.py", 17, "h = h.half().float()")


def with_events(run: Run, steps: int, told: Any, end: float = 0.4) -> list[str]:
    for at in range(steps):
        run.train(1.4 + (end - 1.4) * at / steps, events=[*told(at), *run.events()])
    return run.faults()


def casts(trips: int) -> list[Event]:
    values = {"home": "float32", "away": "float16", "trips": trips, "casts": 2 * trips, "lines": 1}
    return [Event("casts", part="net", values=values, source=LINE)]


def test_formats_that_change_back_and_forth_are_named() -> None:
    run = Run()
    assert with_events(run, 20, lambda at: casts(6)) == ["cast_ping_pong"]
    assert run.engine.findings[0].where.line == 17


def test_one_part_in_another_format_has_no_finding() -> None:
    assert with_events(Run(), 20, lambda at: casts(1)) == []


def test_ids_in_a_format_that_cannot_hold_them_are_named() -> None:
    values = {"dtype": "float16", "exact_to": 2048, "largest": 4999.0, "what": "numbers", "lost": 470, "of": 800}
    event = Event("cast_loss", values=values, source=LINE)
    assert with_events(Run(), 20, lambda at: [event] if at == 0 else []) == ["whole_numbers_lose_precision"]


DROPOUT = Module("drop", "Dropout", settings={"p": 0.5})


def evaluated(run: Run, every: int, passes: int, *, training: bool = True) -> list[str]:
    values = {"training": training, "grad": False}
    burst = [Event("forward", part="net", values=values, source=Source("train.py", 30))] * passes
    return with_events(run, 40, lambda at: burst if at % every == every - 1 else [])


def test_evaluation_in_training_mode_is_named() -> None:
    run = Run(modules=[DROPOUT])
    assert evaluated(run, 10, 4) == ["train_mode_in_evaluation"]
    assert (run.engine.findings[0].where.line, run.engine.findings[0].since_step) == (30, 9)


def test_evaluation_of_a_network_that_is_the_same_in_both_modes_has_no_finding() -> None:
    assert evaluated(Run(), 10, 4) == []


def test_a_sample_without_gradients_in_every_step_has_no_finding() -> None:
    assert evaluated(Run(modules=[DROPOUT]), 1, 3) == []


def test_evaluation_in_evaluation_mode_has_no_finding() -> None:
    assert evaluated(Run(modules=[DROPOUT]), 10, 4, training=False) == []


@pytest.mark.parametrize(
    ("operators", "faults"),
    [("mean, index, log_softmax, addmm", ["loss_sign_flipped"]), ("neg, mean, index, log_softmax, addmm", [])],
)
def test_a_likelihood_that_is_minimised_is_named(operators: str, faults: list[str]) -> None:
    run = Run()
    run.loss_values = {"function": "expression", "operators": operators}
    assert run.learn(30, -0.7, -90.0).faults() == faults


def test_a_negative_loss_of_another_kind_has_no_finding() -> None:
    run = Run()
    run.loss_values = {"function": "expression", "operators": "neg, mean, mul, log_softmax"}
    assert run.learn(30, -0.2, -0.9).faults() == []


def test_weights_that_start_far_too_small_are_named() -> None:
    layers = [Layer(path, weight=1e-5) for path in ("fc1", "fc2", "head")]
    assert Run(layers).stall(80, 1.386).faults() == ["tiny_init"]


def test_small_weights_that_learn_have_no_finding() -> None:
    layers = [Layer(path, weight=1e-5) for path in ("fc1", "fc2", "head")]
    assert Run(layers).learn(80).faults() == []


def test_units_that_are_saturated_from_the_beginning_are_named() -> None:
    run = Run()
    run.input = 60.0
    run.layers[0].activation, run.layers[0].active = "tanh", stats(0.99)
    (finding,) = run.stall(60).end()
    assert (finding.fault, finding.where.op) == ("saturated_activation", "tanh")


def test_a_saturated_last_activation_has_no_finding() -> None:
    run = Run()
    run.layers[-1].activation, run.layers[-1].active = "tanh", stats(0.99)
    assert run.stall(60).faults() == []


def test_a_layer_that_every_forward_pass_makes_anew_is_named() -> None:
    event = Event("stranger", part="net", values={"type": "Linear", "parameters": 2, "size": 1056}, source=LINE)
    run = Run()
    assert with_events(run, 20, lambda at: [event] if 1 <= at <= 4 else []) == ["unregistered_parameters"]
    assert run.engine.findings[0].where.line == 17


def test_a_layer_that_the_first_steps_make_lazily_has_no_finding() -> None:
    event = Event("stranger", part="net", values={"type": "Linear", "parameters": 2, "size": 1056}, source=LINE)
    assert with_events(Run(), 20, lambda at: [event] if at == 1 else []) == []


def over_time(run: Run, shrink: float, loss: float) -> list[str]:
    calls = [run.tensor("output_gradient", "cell", f"output.0#{at}", call=at, type="RNNCell") for at in range(20)]
    for tensor in calls:
        info = run._infos[tensor]
        run.engine.tensor(type(info)(info.id, info.kind, "cell", "output.0", network="net", call=info.call))
    for at in range(40):
        seen = run.observations()
        seen += [
            Observation(tensor, len(seen) + place, stats(0.01 * shrink ** (19 - place)), "backward")
            for place, tensor in enumerate(calls)
        ]
        run.train(loss if shrink < 1 else 1.4 - at / 40, observations=seen)
    return run.faults()


def test_gradients_that_vanish_over_time_steps_are_named() -> None:
    run = Run()
    assert over_time(run, 0.3, 1.4) == ["vanishing_gradient"]
    assert run.engine.findings[0].where.module == "cell"


def test_gradients_that_last_over_time_steps_have_no_finding() -> None:
    assert over_time(Run(), 1.0, 1.4) == []
