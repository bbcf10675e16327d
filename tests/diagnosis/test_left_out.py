"""Layers that get gradients and that no optimizer was given; a student that begins when its teacher is done."""

from __future__ import annotations

import pytest

from tensight.records import Event
from tests.diagnosis.builders import Layer, Run, stats

FRESH = stats(0.125, 256, min=-0.2499, max=0.2499, std=0.25 * 3**-0.5)  # as torch makes a layer of 16 inputs


def with_left(*names: str, start: object = FRESH) -> Run:
    """A network of three layers; those named are in no optimizer and never change."""
    layers = [Layer("query"), Layer("doc"), Layer("head")]
    for layer in layers:
        layer.start = FRESH
        if layer.path in names:
            layer.held = False
            layer.update = 0.0
            layer.start = start  # type: ignore[assignment]
    return Run(layers)


@pytest.mark.parametrize(("names", "place"), [(("doc",), "doc"), (("head",), "head"), (("doc", "head"), "")])
def test_random_layers_behind_trained_ones_that_no_optimizer_holds_are_named(names: tuple, place: str) -> None:
    (finding,) = with_left(*names).learn(60).end()
    assert (finding.fault, finding.where.module) == ("parameters_not_in_optimizer", place)
    assert finding.where.parameter == f"{names[0]}.weight"
    assert (finding.where.line, finding.since_step) == (9, 0)  # where the optimizer is built


def test_a_random_front_is_named_only_when_nothing_is_learnt_on_top_of_it() -> None:
    assert with_left("query", "doc").learn(60).faults() == []
    assert "parameters_not_in_optimizer" in with_left("query", "doc").stall(60).faults()


def test_layers_that_were_trained_before_may_be_meant_to_stay() -> None:
    assert with_left("doc", start=stats(0.4, 256)).learn(60).faults() == []


def test_layers_of_a_checkpoint_may_be_meant_to_stay() -> None:
    run = with_left("doc")
    run.train(1.4, events=[Event("loaded", part="net"), *run.events()])
    assert run.learn(60).faults() == []


def test_layers_that_somebody_changes_by_hand_are_trained() -> None:
    run = with_left("doc")
    run.layers[1].update = 1e-3
    assert run.learn(60).faults() == []


def test_frozen_layers_count_from_the_step_that_met_them() -> None:
    run = Run()
    run.learn(30)
    late = [Layer("body"), Layer("out")]
    for layer in late:
        layer.trainable = False
        layer.gradient = None
        layer.update = 0.0
    run.layers = late
    run.tell_network()
    (finding,) = [one for one in run.stall(30).end() if one.fault == "frozen_parameters"]
    assert finding.since_step == 30
