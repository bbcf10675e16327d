"""Losses that read what they are given in another way than it is meant; limits; units that stay alike."""

from __future__ import annotations

from typing import Any

import pytest

from tensight.records import Event, Module, Source
from tests.diagnosis.builders import LOSS_LINE, Layer, Run, stats

LINE = Source("train.py", 17, "x = x.clamp(2, 80)")


def with_loss(values: dict[str, Any], steps: int = 20) -> Run:
    run = Run()
    assert run.loss_values is not None
    run.loss_values |= values
    return run.stall(steps)


PAIRS = {"function": "cosine_embedding_loss", "target_zeros": 0.6, "target_min": 0, "target_max": 1}


def test_labels_of_0_and_1_for_a_loss_that_wants_minus_1_and_1_are_named() -> None:
    run = with_loss(PAIRS)
    assert run.faults() == ["labels_zero_one_for_signed_loss"]
    assert "-1" in run.engine.findings[0].why


@pytest.mark.parametrize("values", [{"target_min": -1, "target_zeros": 0.0}, {"target_zeros": 0.0, "target_min": 1}])
def test_signed_labels_have_no_finding(values: dict[str, Any]) -> None:
    assert "labels_zero_one_for_signed_loss" not in with_loss(PAIRS | values).faults()


def test_rows_cut_across_the_class_axis_are_named() -> None:
    assert with_loss({"rows_cut_from": "32x4x100"}).faults() == ["view_mixes_axes"]


def test_classes_that_are_reshaped_into_place_and_not_moved_are_named() -> None:
    run = with_loss({"rows_cut_from": "32x16x4", "rows_cut_to": "32x4x16", "class_axis": 2})
    assert run.faults() == ["view_mixes_axes"]
    (finding,) = run.engine.findings
    assert "reshape to (32, 4, 16)" in finding.why
    assert "transpose" in finding.fix[0]


def test_an_overlap_of_raw_outputs_is_named() -> None:
    run = with_loss({"function": "expression", "overlap_of": "convolution"})
    assert run.faults() == ["overlap_of_logits"]


def test_probabilities_picked_along_another_axis_are_named() -> None:
    values = {"function": "expression", "normalised_by": "log_softmax", "normalised_dim": 0, "picked_dim": 1}
    run = with_loss(values)
    assert run.faults() == ["softmax_over_batch_dim"]
    assert run.engine.findings[0].fix == ("normalise over the classes: dim=1",)


def test_ctc_on_logits_is_named() -> None:
    values = {"function": "ctc_loss", "prediction_max": 3.0, "prediction_min": -3.0}
    assert with_loss(values).faults() == ["ctc_on_logits"]


def held(share: float, gradient: float) -> Run:
    run = Run([Layer("fc1"), Layer("head")])
    for layer in run.layers:
        layer.gradient = gradient
        layer.update = 0.0 if not gradient else 1e-3
    values = {"share": share, "smallest": -0.4, "largest": 0.5, "min": 2.0, "max": 80.0, "module": "head"}
    event = Event("held", part="net", values=values, source=LINE)
    for at in range(20):
        run.train(2.4, events=[*([event] if at < 8 else []), *run.events()])
    return run


def test_an_output_that_clamp_holds_at_its_limit_is_named() -> None:
    run = held(1.0, 0.0)
    assert run.faults() == ["clamp_blocks_gradient"]
    assert run.engine.findings[0].where.line == 17


def test_a_clamp_that_lets_gradients_through_is_not_blamed() -> None:
    assert "clamp_blocks_gradient" not in held(0.3, 0.0).faults()
    assert "clamp_blocks_gradient" not in held(1.0, 0.01).faults()


@pytest.mark.parametrize("what", ["rows", "columns"])
def test_units_that_stay_copies_are_named(what: str) -> None:
    run = Run()
    values = {"module": "fc1", "name": "fc1.weight", "what": what, "count": 16, "updates": 11}
    for at in range(20):
        told = [Event("alike", part="net", values=values)] if at == 11 else []
        run.train(1.4 - 0.02 * at, events=[*told, *run.events()])
    assert run.faults() == ["constant_init_symmetry"]
    assert run.engine.findings[0].where.parameter == "fc1.weight"
    assert f"16 {what} of fc1.weight" in run.engine.findings[0].title


def normed(momentum: float, steps: int = 40) -> list[str]:
    run = Run(modules=[Module("bn", "BatchNorm2d", settings={"momentum": momentum, "track_running_stats": True})])
    for at in range(steps):
        told = [Event("mode", part="net", values={"node": "", "training": False})] if at == 20 else []
        run.train(1.4 - 0.02 * at, events=[*told, *run.events()])
    return run.faults()


def test_running_statistics_that_never_follow_are_named() -> None:
    assert normed(0.0003) == ["batchnorm_running_stats_lag"]


@pytest.mark.parametrize("momentum", [0.1, 0.03])
def test_running_statistics_that_follow_have_no_finding(momentum: float) -> None:
    assert normed(momentum) == []


def shares(purity: float) -> Run:
    """Softmax over 10, whose mean squared share over mean share is `purity`."""
    run = Run([Layer("scores"), Layer("head")])
    run.layers[0].activation = "softmax"
    spread = (purity * 0.1 - 0.01) ** 0.5
    run.layers[0].active = stats(0.1, min=0.0, max=1.0, mean=0.1, std=spread)
    return run.stall(60)


def test_a_softmax_between_layers_in_which_one_takes_all_is_named() -> None:
    assert shares(0.97).faults() == ["softmax_saturated"]


def test_a_softmax_that_shares_is_not_blamed() -> None:
    assert "softmax_saturated" not in shares(0.4).faults()


def binary(low: float, high: float, **more: object) -> Run:
    run = Run()
    assert run.loss_values is not None
    run.loss_values |= {"function": "binary_cross_entropy_with_logits", "target_min": low, "target_max": high, **more}
    return run


@pytest.mark.parametrize(("low", "high"), [(0, 255), (-1, 1), (1, 2)])
def test_targets_that_are_no_probabilities_are_named(low: float, high: float) -> None:
    (finding,) = binary(low, high).learn(20).end()
    assert (finding.fault, finding.where.line) == ("target_out_of_range", LOSS_LINE.line)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0.05, 0.95), (0.0, 1.0001)])
def test_targets_that_are_probabilities_have_no_finding(low: float, high: float) -> None:
    assert binary(low, high).learn(20).faults() == []


def test_yes_and_no_that_is_always_no_is_named() -> None:
    assert binary(0, 0, alike=4000).learn(20).faults() == ["constant_labels"]


def test_a_rare_yes_may_not_have_come_up_yet() -> None:
    assert binary(0, 0, alike=500).learn(20).faults() == []


OUT_OF_REACH = {
    "function": "mse_loss",
    "reduction": "mean",
    "prediction_from": "tanh",
    "target_min": 1.4,
    "target_max": 8.6,
    "target_beyond": 1.0,
    "target_floor": 16.1,
    "value": 16.2,
    "target_variance": 3.0,
}


def test_targets_that_the_last_activation_cannot_reach_are_named() -> None:
    run = with_loss(OUT_OF_REACH, 60)
    assert run.faults() == ["output_range_too_small"]
    (finding,) = run.engine.findings
    assert finding.where.op == "tanh"
    assert "-1 to 1" in finding.why


@pytest.mark.parametrize(
    "values",
    [
        {"target_floor": 0.4},  # noise a little beyond the end of the range
        {"target_beyond": 0.01},
        {"reduction": "sum"},
        {"prediction_from": "addmm"},
    ],
)
def test_targets_that_lie_in_reach_have_no_finding(values: dict[str, Any]) -> None:
    assert "output_range_too_small" not in with_loss(OUT_OF_REACH | values, 60).faults()


ONE_ANSWER = {"function": "mse_loss", "alike_by": "mean", "target_min": -1.0, "target_max": 2.0}


def test_an_average_over_the_batch_that_gives_all_samples_one_answer_is_named() -> None:
    run = with_loss(ONE_ANSWER, 60)
    assert run.faults() == ["wrong_reduction_axis"]
    assert run.engine.findings[0].where.op == "mean"


@pytest.mark.parametrize("values", [{"alike_by": None}, {"target_max": -1.0}, {"target_learnt": True}])
def test_answers_that_differ_or_should_not_have_no_finding(values: dict[str, Any]) -> None:
    assert "wrong_reduction_axis" not in with_loss(ONE_ANSWER | values, 60).faults()
