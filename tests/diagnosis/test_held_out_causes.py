"""Causes that trainings of others have shown: each is named, and what resembles it is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from tensight.records import Event, Module, Network, Observation, Parameter, Part, Source
from tests.diagnosis.builders import LOSS_LINE, Layer, Run, constant, stats

LOADED = Source("train.py", 46, "self.model.load_state_dict(self.ema.state_dict())")
ASKED = Event("forward", part="net", values={"grad": False})


def kl_div(**values: Any) -> Run:
    run = Run()
    assert run.loss_values is not None
    run.loss_values |= {"function": "kl_div", "prediction_from": "softmax", **values}
    return run


def test_probabilities_given_to_kl_div_are_named() -> None:
    run = kl_div(prediction_min=0.01, prediction_max=0.8, prediction_row_sum_min=1.0, prediction_row_sum_max=1.0)
    (finding,) = run.learn(20, -1.0, -1.2).end()
    assert (finding.fault, finding.where.op) == ("kl_div_on_probabilities", "kl_div")
    assert "never negative" in finding.why


def test_log_probabilities_given_to_kl_div_are_right() -> None:
    assert kl_div(prediction_min=-9.0, prediction_max=-0.1).learn(20).faults() == []


def swapped(run: Run, restored: bool, jump: float) -> list[str]:
    reload = Event("reloaded", part="net", source=LOADED)
    for at in range(60):
        swap = [reload, ASKED, *([reload] if restored else [])] if at and at % 12 == 0 else []
        loss = 1.0 - 0.005 * at + (jump if at % 12 < 3 else 0.0)
        run.train(loss, events=[*swap, *run.events()])
    return run.faults()


def test_weights_that_an_evaluation_loads_and_leaves_are_named() -> None:
    run = Run()
    assert swapped(run, restored=False, jump=0.5) == ["weights_not_restored"]
    (finding,) = run.engine.findings
    assert (finding.since_step, finding.where.line, finding.where.op) == (12, 46, "load_state_dict")


@pytest.mark.parametrize(("restored", "jump"), [(True, 0.5), (False, 0.0)])
def test_weights_that_are_restored_or_do_no_harm_have_no_finding(restored: bool, jump: float) -> None:
    assert swapped(Run(), restored, jump) == []


def two_branches(twice: bool) -> Run:
    run = Run([Layer("left"), Layer("right"), Layer("head")])
    run.layers[1].called = False
    run.layers[1].gradient = None
    run.layers[1].update = 0.0
    if twice:
        again = run.tensor("output", "left", "output.0 again", call=1)
        plain = run.observations
        run.observations = lambda: [*plain(), Observation(again, 999, stats())]  # type: ignore[method-assign]
    return run


def test_a_module_whose_like_runs_in_its_place_is_named() -> None:
    (finding,) = two_branches(twice=True).learn(40).end()
    assert (finding.fault, finding.where.module) == ("module_never_used", "right")
    assert "left" in finding.why


def test_a_module_that_waits_for_its_turn_has_no_finding() -> None:
    assert two_branches(twice=False).learn(40).faults() == []


def game(early: bool) -> Run:
    """Two optimizers; the critic's gradients are cleared before or after the generator's pass fills them."""
    run = Run([Layer("critic")])
    run.engine.network(Network("gen", "Gen", (Module("", "Gen"),), (Parameter("w", (4, 4), "float32", optimizer="G"),)))
    run.engine.part(Part("optimizer", "G", "Adam", {}, None, ("gen:w",)))
    lines = {name: Source("train.py", at) for at, name in enumerate(("own", "other"), start=43)}
    clear = Event("zero_grad", part="SGD")
    own = [
        Event("backward", part="net", values={"cleared": not early}, source=lines["own"]),
        Event("optimizer_step", part="SGD", source=Source("train.py", 50)),
    ]
    other = [
        Event("zero_grad", part="G"),
        Event("backward", part="net", values={"cleared": early}, source=lines["other"]),
        Event("optimizer_step", part="G"),
    ]
    for at in range(30):
        values = {"cleared": True} if not at else own[0].values
        mine = [Event("backward", part="net", values=values, source=lines["own"]), own[1]]
        events = [*mine, clear, *other] if early else [clear, *mine, *other]
        run.train(1.3 - at / 100, events=events)
    return run


def test_gradients_that_another_loss_has_left_are_named() -> None:
    (finding,) = game(early=True).end()
    assert (finding.fault, finding.since_step, finding.where.line) == ("gradients_of_another_loss", 1, 43)


def test_gradients_cleared_right_before_the_own_pass_are_right() -> None:
    assert game(early=False).faults() == []


@pytest.mark.parametrize(("share", "faults"), [(0.6, ["targets_not_augmented_with_inputs"]), (0.0, [])])
def test_masks_that_fit_only_when_mirrored_are_named(share: float, faults: list[str]) -> None:
    run = Run()
    run.scalars["probe/turned_targets"] = share
    assert run.learn(40).faults() == faults


def test_gradients_of_zero_in_front_of_a_trained_part_are_an_operator_without_slope() -> None:
    run = Run([Layer("encoder"), Layer("decoder"), Layer("head")])
    run.layers[0].gradient = constant(0.0)
    run.layers[0].update = 0.0
    (finding,) = run.learn(40).end()
    assert (finding.fault, finding.where.module) == ("operator_without_slope", "encoder")


def test_gradients_of_zero_that_later_come_alive_have_no_finding() -> None:
    run = Run([Layer("encoder"), Layer("decoder"), Layer("head")])
    run.layers[0].gradient = constant(0.0)
    run.train(1.4)
    run.layers[0].gradient = 0.01
    assert run.learn(40).faults() == []


def test_a_loss_that_runs_to_minus_infinity_is_named() -> None:
    run = Run()
    for at in range(60):
        run.train(2.0 - 10.0 ** (at / 8))
    (finding,) = run.end()
    assert (finding.fault, finding.where.op) == ("loss_unbounded_below", "backward")


def test_a_loss_that_has_just_begun_to_run_away_is_named() -> None:
    run = Run()
    for at in range(60):
        run.train(15.0 - 1.12**at)
    assert run.faults() == ["loss_unbounded_below"]


def test_a_loss_written_by_hand_that_runs_to_minus_infinity_is_placed_where_it_is_written() -> None:
    run = Run()
    run.loss_values = {"function": "expression", "operators": "mean, add, sub", "reduction": "mean"}
    for at in range(60):
        run.train(2.0 - 10.0 ** (at / 8))
    (finding,) = run.end()
    assert (finding.fault, finding.where.line) == ("loss_unbounded_below", LOSS_LINE.line)


def test_a_likelihood_that_becomes_negative_and_settles_has_no_finding() -> None:
    run = Run()
    for at in range(60):
        run.train(2.0 - min(at, 40))
    assert run.faults() == []


def test_gradients_that_a_closure_clears_were_used() -> None:
    run = Run(optimizer="LBFGS")
    line = Source("train.py", 41)
    for at in range(20):
        passes = [
            event
            for _ in range(6)
            for event in (
                Event("zero_grad", part="LBFGS", values={"inside": True}),
                Event("backward", part="net", values={"cleared": True}, source=line),
            )
        ]
        run.train(1.4 - at / 20, events=[*passes, Event("optimizer_step", part="LBFGS")])
    assert run.faults() == []


@pytest.mark.parametrize(
    ("size", "known", "faults"), [(0.002, 0.4, ["input_too_small"]), (0.002, 0.0, None), (0.5, 0.4, None)]
)
def test_inputs_that_are_scaled_twice_are_named(size: float, known: float, faults: list[str] | None) -> None:
    run = Run()
    run.input = stats(size)
    run.scalars["probe/label_information"] = known
    found = run.stall(120).faults()
    assert found == faults if faults else "input_too_small" not in found


def ramp(end: int, broken: bool) -> Run:
    """A rate that rises up to a step, and a loss that falls, then jumps and stays when the rate has grown too far."""
    run = Run()
    for at in range(100):
        run.lr = 0.01 * min(at + 1, end)
        run.train(1.4 - 0.02 * min(at, 40) + (2.0 if broken and at > 45 else 0.0))
    return run


def test_a_rate_that_never_stops_rising_is_named_when_it_does_harm() -> None:
    (finding,) = ramp(end=1000, broken=True).end()
    assert finding.fault == "lr_keeps_rising"
    assert abs(finding.since_step - 46) <= 2


@pytest.mark.parametrize(("end", "broken"), [(1000, False), (10, False)])
def test_a_rate_that_rises_without_harm_or_arrives_has_no_finding(end: int, broken: bool) -> None:
    assert ramp(end, broken).faults() == []


def test_a_loss_that_falls_faster_and_faster_is_named_with_the_term_that_runs_away() -> None:
    run = Run()
    for at in range(80):
        kl = -(1.12**at)
        values = {"rec": 9.0, "kl": kl, "line of rec": "17 rec = …", "line of kl": "18 kl = 0.5 * (…).sum()"}
        terms = Event("terms", part="net", values=values, source=Source("train.py", 19, "loss = rec + kl"))
        run.train(9.0 + kl, events=[*run.events()[:2], terms, *run.events()[2:]])
    (finding,) = run.end()
    assert (finding.fault, finding.where.line, finding.since_step) == ("loss_unbounded_below", 18, 0)
    assert "kl alone is" in finding.why


def test_a_likelihood_that_falls_steadily_far_below_zero_has_no_finding() -> None:
    run = Run()
    for at in range(80):
        run.train(2.0 - 4.0 * at)
    assert run.faults() == []
