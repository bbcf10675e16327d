"""Parts of the network that are not connected, registered or trained."""

from __future__ import annotations

from tests.diagnosis.builders import Layer, Run


def test_layers_outside_parameters_are_named() -> None:
    layers = [Layer("stem"), Layer("blocks.0"), Layer("blocks.1"), Layer("head")]
    for layer in layers[1:3]:
        layer.registered = layer.held = False
        layer.update = 0.0
    (finding,) = Run(layers).stall(20).end()
    assert (finding.fault, finding.where.module) == ("unregistered_parameters", "blocks")
    assert finding.where.parameter == "blocks.0.weight"
    assert "ModuleList" in finding.fix[0]


def test_unregistered_parameters_that_an_optimizer_holds_have_no_finding() -> None:
    layers = [Layer("stem"), Layer("extra"), Layer("head")]
    layers[1].registered = False
    assert Run(layers).learn(20).faults() == []


def test_a_front_part_without_gradients_is_cut_off() -> None:
    layers = [Layer("encoder.0"), Layer("encoder.2"), Layer("regressor")]
    for layer in layers[:2]:
        layer.gradient = None
        layer.update = 0.0
    (finding,) = Run(layers).stall(20).end()
    assert (finding.fault, finding.where.module, finding.since_step) == ("detach_breaks_graph", "encoder", 0)
    assert "encoder" in finding.title


def test_everything_frozen_is_named() -> None:
    run = Run()
    for layer in run.layers:
        layer.trainable = False
        layer.gradient = None
        layer.update = 0.0
    run.tell_network()
    (finding,) = run.stall(30).end()
    assert finding.fault == "frozen_parameters"
