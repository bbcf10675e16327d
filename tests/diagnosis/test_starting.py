"""Checkpoints that do not fit, and evaluation data on another scale."""

from __future__ import annotations

from typing import Any

import pytest

from tensight.records import Event, Observation, Source
from tests.diagnosis.builders import Run, stats

LINE = Source("train.py", 14, "model.load_state_dict(state, strict=False)")


def loaded(**values: Any) -> list[str]:
    run = Run()
    told = {"first_missing": "fc1.weight", "first_unexpected": "module.fc1.weight", **values}
    run.train(1.4, events=[Event("loaded", part="Net", values=told, source=LINE), *run.events()])
    return run.learn(20).faults()


def test_a_checkpoint_with_other_names_is_named() -> None:
    assert loaded(missing=6, unexpected=6, given=6) == ["checkpoint_does_not_fit"]


@pytest.mark.parametrize(
    ("missing", "unexpected"), [(2, 2), (2, 0), (0, 2), (6, 0)], ids=["head", "new head", "old head", "backbone only"]
)
def test_a_checkpoint_of_which_most_fits_has_no_finding(missing: int, unexpected: int) -> None:
    assert loaded(missing=missing, unexpected=unexpected, given=40) == []


def evaluated(scale: float, every: int = 5, *, node: str = "") -> list[str]:
    run = Run()
    other = run.tensor("input", "", "input.0 ", dtype="float32")
    info = run._infos[other]
    run.engine.tensor(type(info)(info.id, "input", node, "input.0", network="net", dtype="float32"))
    for at in range(30):
        seen = run.observations()
        if at % every == every - 1:
            seen.append(Observation(other, len(seen), stats(scale), "evaluation"))
        run.train(1.4 - at / 40, observations=seen)
    return run.faults()


def test_evaluation_data_on_another_scale_is_named() -> None:
    assert evaluated(60.0) == ["evaluation_inputs_differ"]


@pytest.mark.parametrize("scale", [1.0, 0.5, 3.0])
def test_evaluation_data_on_about_the_same_scale_has_no_finding(scale: float) -> None:
    assert evaluated(scale) == []


def test_training_that_calls_the_part_behind_the_scaling_of_a_model_has_no_finding() -> None:
    """The loss is a method of the model that scales and calls its layers; evaluation calls the whole model."""
    assert evaluated(60.0, node="layers") == []
