"""Each check of a preflight says what is wrong, and nothing else does."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tensight.session.one_batch import Trial
from tensight.session.preflight_checks import CHECKS, check
from tests.session.flights import ZERO, Flight, stats

FALLING = Trial(losses=tuple(2.0 / (1 + step / 10) for step in range(60)))
SINGLE = {"target_distinct": 1, "target_entropy": 0.0, "target_min": 2, "target_max": 2}


def marks(folder: Path, flight: Flight, trial: Trial = FALLING) -> dict[str, str]:
    """The checks that do not pass, with their marks."""
    answers = check(flight.write(folder / "run"), trial)
    assert list(answers) == list(CHECKS)
    return {name: answer.mark for name, answer in answers.items() if answer.mark != "ok"}


def test_a_healthy_start_passes_every_check(tmp_path: Path) -> None:
    assert marks(tmp_path, Flight()) == {}


@pytest.mark.parametrize(
    ("flight", "failing"),
    [
        (Flight(fed=lambda step: stats(-2, 2 + step, nan=3)), {"inputs are finite": "bad"}),
        (Flight(batch=lambda step: {"index": step, "mean.0": step, "nan.0": step == 4}), {"inputs are finite": "bad"}),
        (Flight(fed=lambda step: stats(0, 5000 + step)), {"inputs have a sane scale": "bad"}),
        (Flight(fed=lambda step: stats(0, 255)), {"inputs have a sane scale": "look"}),
        (Flight(fed=lambda step: stats(3, 3)), {"inputs have a sane scale": "bad"}),
        (Flight(label=lambda step: {**SINGLE, "target_min": step // 5}), {"labels vary": "bad"}),
        (Flight(batch=lambda step: {"index": step, "mean.0": 1.0, "nan.0": 0}), {"batches differ": "bad"}),
        (Flight(losses=lambda step: math.nan if step == 5 else 1.4), {"loss is finite": "bad"}),
        (Flight(losses=lambda step: 30.0 - step), {"loss at the start": "bad"}),
        (Flight(losses=lambda step: 6.0 - step / 10), {"loss at the start": "look"}),
        (Flight(losses=lambda step: 0.1), {"loss at the start": "look"}),
        (Flight(held=("head",)), {"every parameter is in an optimizer": "bad"}),
        (Flight(unknown_parameters=2), {"every parameter is in an optimizer": "look"}),
        (Flight(gradients={"body": None}), {"every parameter gets a gradient": "look"}),
        (Flight(gradients={"body": ZERO}), {"every parameter gets a gradient": "look"}),
        (Flight(update=False), {"every parameter moves": "bad", "mode": "unknown"}),
        (Flight(change=0.0), {"every parameter moves": "bad", "size of updates": "unknown"}),
        (Flight(change=0.5), {"size of updates": "look"}),
        (Flight(change=1e-9), {"size of updates": "look"}),
        (Flight(training=False), {"mode": "bad"}),
        (Flight(memory=lambda step: 3e8 + 4e6 * step), {"memory": "look"}),
        (Flight(wait=0.08), {"speed": "look"}),
    ],
)
def test_a_fault_is_marked_by_its_own_check_alone(tmp_path: Path, flight: Flight, failing: dict[str, str]) -> None:
    assert marks(tmp_path, flight) == failing


def test_parameters_that_no_gradient_reaches_at_all_are_wrong(tmp_path: Path) -> None:
    found = marks(tmp_path, Flight(gradients={"body": None, "head": None}))
    assert found["every parameter gets a gradient"] == "bad"


def test_an_evaluation_mode_that_changes_nothing_passes(tmp_path: Path) -> None:
    assert marks(tmp_path, Flight(training=False, modules=("Linear", "Linear", "LayerNorm"))) == {}


def test_the_loss_of_a_regression_is_compared_with_the_variance_of_its_targets(tmp_path: Path) -> None:
    flight = Flight(function="mse_loss", loss_values={"target_variance": 1.5}, label=lambda step: {})
    answer = check(flight.write(tmp_path / "run"), FALLING)["loss at the start"]
    assert answer.mark == "ok"
    assert "variance of the targets, 1.5" in answer.says


def test_a_loss_of_which_nothing_is_known_is_not_judged(tmp_path: Path) -> None:
    found = marks(tmp_path, Flight(function="expression", label=lambda step: {}))
    assert found == {"labels vary": "unknown", "loss at the start": "unknown"}


@pytest.mark.parametrize(
    ("trial", "mark"),
    [
        (Trial(losses=(1.0,) * 60), "bad"),
        (Trial(losses=tuple(1.0 - step / 500 for step in range(60))), "look"),
        (Trial("the script runs threads of its own"), "unknown"),
        (Trial("the loss became nan in step 20 on it", (1.0,) * 20), "bad"),
    ],
)
def test_one_batch_is_judged_by_its_losses(tmp_path: Path, trial: Trial, mark: str) -> None:
    assert marks(tmp_path, Flight(), trial) == {"one batch can be learnt": mark}


def test_what_was_not_tried_is_said_with_its_reason(tmp_path: Path) -> None:
    answer = check(Flight().write(tmp_path / "run"), Trial("there is no loader"))["one batch can be learnt"]
    assert answer.says == "not tried: there is no loader"


def test_a_run_without_any_step_answers_every_check(tmp_path: Path) -> None:
    found = marks(tmp_path, Flight(steps=0), Trial("nothing ran"))
    assert set(found.values()) <= {"unknown", "bad", "look"}
    assert found["loss is finite"] == "unknown"


def test_a_check_that_fails_does_not_take_the_others_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(look: object) -> None:
        raise ZeroDivisionError("as the test wants it")

    monkeypatch.setitem(CHECKS, "labels vary", broken)
    answers = check(Flight().write(tmp_path / "run"), FALLING)
    assert answers["labels vary"].mark == "unknown"
    assert "ZeroDivisionError" in answers["labels vary"].says
    assert answers["speed"].mark == "ok"
