"""The loss does not measure what the user meant."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tensight.records import Event, Source
from tests.diagnosis.builders import Run, stats

PROBABILITIES = {
    "prediction_min": 0.01,
    "prediction_max": 0.9,
    "prediction_row_sum_min": 1.0,
    "prediction_row_sum_max": 1.0,
    "prediction_from": "softmax",
}


def _with(**values: Any) -> Run:
    run = Run()
    assert run.loss_values is not None
    run.loss_values |= values
    return run


def test_probabilities_given_to_cross_entropy_are_a_second_softmax() -> None:
    run = _with(**PROBABILITIES)
    run.layers[-1].activation = "softmax"
    (finding,) = run.stall(20).end()
    assert (finding.fault, finding.where.op, finding.where.module) == (
        "softmax_before_cross_entropy",
        "softmax",
        "head",
    )
    assert "softmax a second time" in finding.why


def _by_hand(**values: Any) -> Run:
    run = Run()
    run.loss_values = {"function": "expression", "operators": "neg, mean, gather, sub", "reduction": "mean", **values}
    run.layers[-1].activation = "softmax"
    return run


def test_probabilities_that_a_loss_written_by_hand_takes_for_logits_are_a_second_softmax() -> None:
    (finding,) = _by_hand(normalised_twice=6).learn(20).end()
    assert (finding.fault, finding.where.module) == ("softmax_before_cross_entropy", "head")
    assert "6 choices" in finding.why


def test_probabilities_that_a_loss_written_by_hand_takes_as_such_are_fine() -> None:
    assert _by_hand().learn(20).faults() == []


def test_log_probabilities_given_to_cross_entropy_do_no_harm() -> None:
    run = _with(prediction_min=-5.0, prediction_max=-0.1, prediction_from="log_softmax")
    assert run.learn(20).faults() == []


def test_small_logits_that_do_not_sum_to_one_are_fine() -> None:
    run = _with(prediction_min=0.0, prediction_max=0.9, prediction_row_sum_min=0.4, prediction_row_sum_max=2.2)
    assert run.learn(20).faults() == []


@pytest.mark.parametrize(
    "values",
    [
        {"prediction_dim": 0, "prediction_max": -1.0},
        {"prediction_max": -3.9, "prediction_min": -5.0},
        {"prediction_max": -0.1, "prediction_min": -0.9},
    ],
)
def test_log_softmax_over_the_batch_is_proven_by_what_cannot_be(values: dict[str, Any]) -> None:
    run = _with(**({"function": "nll_loss", "prediction_from": "log_softmax", "prediction_min": -5.0} | values))
    (finding,) = run.stall(20, loss=2.8).end()
    assert (finding.fault, finding.where.op) == ("softmax_over_batch_dim", "log_softmax")


@pytest.mark.parametrize(("low", "high"), [(-9.0, -0.001), (-1.5, -1.3)])
def test_log_softmax_over_the_classes_is_fine(low: float, high: float) -> None:
    run = _with(function="nll_loss", prediction_from="log_softmax", prediction_min=low, prediction_max=high)
    assert run.learn(20).faults() == []


def test_probabilities_given_to_nll_loss_are_named() -> None:
    run = _with(function="nll_loss", **PROBABILITIES)
    run.layers[-1].activation = "softmax"
    (finding,) = run.learn(20, -0.25, -0.98).end()
    assert (finding.fault, finding.where.module) == ("nll_on_probabilities", "head")


def test_logits_given_to_nll_loss_are_named() -> None:
    run = _with(function="nll_loss")
    assert run.learn(20, 0.0, -30.0).faults() == ["nll_on_logits"]


def test_sigmoid_before_a_loss_on_logits_is_named() -> None:
    values = {"prediction_min": 0.1, "prediction_max": 0.9, "prediction_from": "sigmoid", "target_max": 1}
    run = _with(function="binary_cross_entropy_with_logits", **values)
    assert run.stall(20, loss=0.69).faults() == ["sigmoid_before_bce_with_logits"]


def test_logits_that_happen_to_lie_between_zero_and_one_are_fine() -> None:
    run = _with(function="binary_cross_entropy_with_logits", prediction_min=0.1, prediction_max=0.9, target_max=1)
    assert run.learn(20).faults() == []


@pytest.mark.parametrize(
    ("low", "high", "faults"), [(0.004, 0.93, ["sigmoid_before_bce_with_logits"]), (0.0, 0.93, []), (-0.3, 0.93, [])]
)
def test_of_a_compiled_model_only_the_range_is_known(low: float, high: float, faults: list[str]) -> None:
    values = {"prediction_min": low, "prediction_max": high, "prediction_from": "", "target_max": 1}
    run = _with(function="binary_cross_entropy_with_logits", **values)
    assert run.learn(20, 0.8, 0.71).faults() == faults


@pytest.mark.parametrize(("given", "faults"), [(True, ["broadcast_in_loss"]), (False, [])])
def test_a_residual_that_broadcasts_beside_another_term_is_named_where_the_target_is_given(
    given: bool, faults: list[str]
) -> None:
    operators = "add, mean, pow, sub, add, addmm, tanh, t"
    shapes = {"prediction_shape": "64x1", "target_shape": "64", "difference_shape": "64x64"}
    run = _with(function="expression", operators=operators, target_given=given, **shapes)
    assert run.stall(20, loss=7.8).faults() == faults


ROBUST = (
    "mean, log, cosh, sub, squeeze, addmm",  # log-cosh
    "mean, where, mul, sub, pow, abs, sub, squeeze, addmm",  # Huber
    "mean, maximum, mul, mul, sub, squeeze, addmm",  # a quantile
    "mean, log1_p, pow, sub, squeeze, addmm",  # Cauchy
    "mean, relu, sub, abs, sub, squeeze, addmm",  # a tolerance
    "mean, add, mul, log, pow, div, sub, squeeze, addmm",  # a Gaussian
)
ALL_PAIRS = (
    "mean, exp, neg, pow, sub, unsqueeze, addmm",  # a kernel between two sets
    "mean, min, abs, sub, unsqueeze, addmm",  # the nearest
    "mean, logsumexp, neg, pow, sub, unsqueeze, addmm",  # a mixture
)


@pytest.mark.parametrize(
    ("operators", "given", "faults"),
    [
        *((operators, True, ["broadcast_in_loss"]) for operators in ROBUST),
        *((operators, False, []) for operators in ROBUST[:3]),
        *((operators, True, []) for operators in ALL_PAIRS),
    ],
)
def test_a_robust_measure_of_an_error_compares_no_pairs_on_purpose(
    operators: str, given: bool, faults: list[str]
) -> None:
    shapes = {"prediction_shape": "64", "target_shape": "64x1", "difference_shape": "64x64"}
    run = _with(function="expression", operators=operators, target_given=given, **shapes)
    assert run.stall(20, loss=7.8).faults() == faults


@pytest.mark.parametrize("function", ["mse_loss", "expression"])
def test_a_column_against_a_vector_broadcasts_to_a_matrix(function: str) -> None:
    operators = "mean, pow, sub, addmm, relu, t"
    run = _with(function=function, prediction_shape="64x1", target_shape="64", operators=operators)
    (finding,) = run.stall(20, loss=7.8).end()
    assert finding.fault == "broadcast_in_loss"
    assert "64x64" in finding.title


@pytest.mark.parametrize(("a", "b"), [("64x1", "64x1"), ("64", "64"), ("64x1", "1x64"), ("64x10", "10"), ("1", "1x1")])
def test_shapes_that_fit_or_are_meant_to_broadcast_are_fine(a: str, b: str) -> None:
    run = _with(function="mse_loss", prediction_shape=a, target_shape=b)
    assert run.learn(20).faults() == []


def test_a_product_of_a_column_and_a_row_is_named() -> None:
    run = _with(function="expression", prediction_shape="64x1", target_shape="64", operators="mean, relu", product=True)
    (finding,) = run.learn(20).end()
    assert (finding.fault, finding.where.op) == ("broadcast_in_loss", "mul")
    assert "their product broadcasts to a 64x64 matrix" in finding.why


def test_a_ranking_loss_compares_all_pairs_on_purpose() -> None:
    operators = "mean, softplus, neg, sub, unsqueeze, addmm"
    run = _with(function="expression", prediction_shape="64x1", target_shape="64", operators=operators)
    assert run.learn(20).faults() == []


def test_a_summed_loss_that_diverges_is_blamed_on_the_sum() -> None:
    run = _with(reduction="sum")
    for layer in run.layers:
        layer.update = 3.0
    for loss in (40.0, 4e4, 4e9, math.inf, math.nan, math.nan):
        run.train(loss)
    assert run.faults() == ["sum_instead_of_mean"]


def test_a_sum_that_the_script_writes_itself_is_called_sum() -> None:
    run = _with(function="expression", operators="sum, pow, sub, addmm", reduction="sum", prediction_shape="64x8")
    for layer in run.layers:
        layer.update = 3.0
    for loss in (400.0, 4e5, 4e10, math.inf, math.nan, math.nan):
        run.train(loss)
    (finding,) = run.end()
    assert (finding.fault, finding.where.op) == ("sum_instead_of_mean", "sum")
    assert "sum adds up 512 terms" in finding.why


def _dying(update: float, reduction: str) -> Run:
    """All units of a layer are dead from the third step on, after updates of this size."""
    run = _with(reduction=reduction)
    for layer in run.layers:
        layer.update = update
    run.train(180.0)
    run.train(210.0)
    run.layers[1].activation = "relu"
    run.layers[1].active = stats(0, 512)
    for layer in run.layers[:2]:
        layer.gradient = stats(0, 256)
        layer.update = 0.0
    return run.stall(40, 206.0)


def test_a_summed_loss_that_kills_a_layer_with_its_first_updates_is_the_cause() -> None:
    assert _dying(1.2, "sum").faults() == ["sum_instead_of_mean"]
    assert "sum_instead_of_mean" not in _dying(0.01, "sum").faults()
    assert "sum_instead_of_mean" not in _dying(1.2, "mean").faults()


def test_a_summed_loss_that_learns_is_fine() -> None:
    assert _with(reduction="sum").learn(30, 40.0, 10.0).faults() == []


def over_rows(shape: str, size: int, *, fed: int = 0, learnt: float = 0.01, steps: int = 20) -> list[str]:
    run = Run()
    if fed:
        run.tensor("input", "", "input.0", dtype="float32", shape=(fed, 2))
    line = Source("train.py", 31, "w = torch.softmax(score, dim=0)")
    values = {"function": "softmax", "size": size, "shape": shape, "module": ""}
    for at in range(steps):
        told = [Event("over_rows", part="net", values=values, source=line)] if at < 6 else []
        run.train(1.4 - learnt * at, events=[*run.events()[:1], *told, *run.events()[1:]])
    return run.faults()


def test_a_softmax_inside_the_network_over_the_samples_of_the_batch_is_named() -> None:
    assert over_rows("32x10", 32) == ["softmax_over_batch_dim"]


def test_a_softmax_over_a_first_dimension_that_is_not_the_batch_has_no_finding() -> None:
    assert over_rows("10x32", 10) == []


def test_a_softmax_over_the_samples_is_named_where_each_has_several_targets_in_a_row() -> None:
    assert over_rows("16x2x2", 16, fed=16, learnt=0.001, steps=60) == ["softmax_over_batch_dim"]


def test_it_is_not_where_the_network_learns_or_is_fed_something_else() -> None:
    assert over_rows("16x2x2", 16, fed=16, learnt=0.022, steps=60) == []
    assert over_rows("16x2x2", 16, fed=12, learnt=0.001, steps=60) == []
