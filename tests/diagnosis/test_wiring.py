"""Parts of the network that are not connected, registered or trained."""

from __future__ import annotations

from typing import Any

import pytest

from tensight.records import Event, Network, Observation, Parameter, Source
from tests.diagnosis.builders import OPTIMIZER_LINE, Layer, Run, constant, stats


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


def test_each_module_that_is_cut_off_is_named_and_the_place_is_behind_the_last() -> None:
    layers = [Layer("conv1"), Layer("conv2"), Layer("fc1"), Layer("fc2")]
    for layer in layers[:3]:
        layer.gradient = None
        layer.update = 0.0
    (finding,) = Run(layers).stall(20).end()
    assert finding.fault == "detach_breaks_graph"
    assert "of conv1, conv2, fc1 (" in finding.why
    assert "between fc1 and fc2" in finding.fix[0]


def _branches(*, cut: str | None = "no_grad", start: float = 0.0625, copied: bool = False, moves: float = 0.0) -> Run:
    """Two towers of one network; the second one runs last and never gets a gradient."""
    layers = [Layer("query.fc1"), Layer("query.fc2"), Layer("document.fc1"), Layer("document.fc2")]
    for at, layer in enumerate(layers):
        # as torch makes it: evenly within 1 / sqrt(16); each another sample of it
        size = 0.125 if copied else 0.125 * (1 + at / 100)
        layer.start = stats(size, 256, min=-0.25, max=0.25, std=0.25 * 3**-0.5) if start else stats(0.7, 256)
    for layer in layers[2:]:
        layer.gradient, layer.update = None, moves
    run = Run(layers)
    line = Source("train.py", 12, "with torch.no_grad():")
    told = [] if cut is None else [Event("cut", part="net", values={"module": "", "function": cut}, source=line)]
    run.train(1.4, events=[*told, *run.events()])
    return run.learn(20)


def test_a_branch_beside_the_trained_one_that_a_line_of_forward_cuts_off_is_named_with_that_line() -> None:
    (finding,) = _branches().end()
    assert (finding.fault, finding.where.module, finding.where.line) == ("detach_breaks_graph", "document", 12)
    assert "query.fc1 beside it is trained" in finding.why


@pytest.mark.parametrize(
    "run",
    [
        {"cut": None},  # nobody uses its result: another rule's
        {"cut": "item"},
        {"start": 0.0},  # it was trained before
        {"copied": True},  # a target network, brought up to date now and then
        {"moves": 1e-3},  # a running mean
    ],
)
def test_a_branch_that_may_be_meant_to_stand_still_is_left_alone(run: dict[str, Any]) -> None:
    assert "detach_breaks_graph" not in _branches(**run).faults()


def test_everything_frozen_is_named() -> None:
    run = Run()
    for layer in run.layers:
        layer.trainable = False
        layer.gradient = None
        layer.update = 0.0
    run.tell_network()
    (finding,) = run.stall(30).end()
    assert finding.fault == "frozen_parameters"


def front_in_no_optimizer(end: float, *, drawn: bool = True, bound: float = 0.125) -> Run:
    """Two random layers that may be trained, and a head which alone the optimizer holds."""
    layers = [Layer("encoder.0", (64, 64)), Layer("encoder.1", (64, 64)), Layer("head", (4, 64))]
    for layer in layers[:2]:
        layer.held = False
        layer.gradient, layer.update = None, 0.0
        layer.weight = bound / 2
        spread = bound * 3**-0.5 if drawn else bound / 5
        layer.start = stats(bound / 2, 4096, min=-bound, max=bound, std=spread)
    return Run(layers).learn(60, begin=1.4, end=end)


@pytest.mark.parametrize("bound", [0.125, (6 / 64) ** 0.5, (6 / 128) ** 0.5])
def test_random_layers_that_no_optimizer_was_given_are_named_where_hardly_anything_is_learnt(bound: float) -> None:
    (finding,) = front_in_no_optimizer(1.3, bound=bound).end()
    assert finding.fault == "parameters_not_in_optimizer"
    assert (finding.where.module, finding.where.parameter) == ("encoder", "encoder.0.weight")
    assert finding.where.code == OPTIMIZER_LINE.code
    assert "no optimizer" in finding.why


def test_a_head_that_learns_on_top_of_them_may_be_meant() -> None:
    assert front_in_no_optimizer(0.7).faults() == []


def test_layers_that_were_trained_elsewhere_may_stay_as_they_are() -> None:
    assert front_in_no_optimizer(1.3, drawn=False).faults() == []


VIEW = Source("train.py", 12, "x = x.reshape(10, 32, 4)")


def _viewed(end: float, sizes: str = "32x10") -> Run:
    """A reshape in forward, in each of the first steps; the loss is over 32 samples."""
    run = Run()
    values = {"from": "32x10x4", "to": "10x32x4", "sizes": sizes, "module": ""}
    for at in range(80):
        told = [Event("moved_axes", part="net", values=values, source=VIEW)] if at < 4 else []
        run.train(1.39 + (end - 1.39) * at / 80, events=[*told, *run.events()])
    return run


def test_a_reshape_in_place_of_a_transpose_mixes_samples() -> None:
    run = _viewed(1.38)
    assert run.faults() == ["view_mixes_samples"]
    found = run.engine.findings[0]
    assert (found.where.line, found.since_step) == (12, 0)
    assert "(32, 10, 4)" in found.why


def test_a_reshape_that_leaves_the_batch_alone_or_of_a_network_that_learns_is_fine() -> None:
    assert "view_mixes_samples" not in _viewed(1.38, "10").faults()
    assert _viewed(0.4).faults() == []


@pytest.mark.parametrize(("weight", "faults"), [(0.0625, ["frozen_parameters"]), (0.2, [])])
def test_a_student_that_is_frozen_as_it_was_made_is_named_though_it_begins_late(
    weight: float, faults: list[str]
) -> None:
    layers = [Layer("body.0", (64, 64)), Layer("body.1", (64, 64)), Layer("head", (4, 64))]
    for layer in layers[:2]:
        layer.trainable, layer.gradient, layer.update, layer.weight = False, None, 0.0, weight
    run = Run(layers)
    for _ in range(20):  # its teacher is trained
        run.train(0.5, observations=[Observation(run.tensor("input", "", "input.0"), 0, stats(), "forward")])
    assert run.learn(60, 1.7, 1.1).faults() == faults


@pytest.mark.parametrize(("bias", "faults"), [(0.0, ["frozen_parameters"]), (0.3, [])])
def test_layers_frozen_with_a_bias_of_zero_are_no_pretrained_ones(bias: float, faults: list[str]) -> None:
    layers = [Layer("body", (64, 64)), Layer("head", (4, 64))]
    layers[0].trainable, layers[0].gradient, layers[0].update = False, None, 0.0
    run = Run(layers)
    known = run.engine.case.networks["net"]
    added = Parameter("body.bias", (64,), "float32", trainable=False, module="body", optimizer="SGD")
    run.engine.network(Network("net", "Net", known.modules, (*known.parameters, added), source=known.source))
    tensor = run.tensor("frozen", "body", "bias", dtype="float32", shape=(64,))
    for at in range(60):
        seen = [*run.observations(), Observation(tensor, 99, constant(bias))]
        run.train(1.7 - at / 100, observations=seen)
    assert run.faults() == faults
