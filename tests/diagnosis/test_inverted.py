"""Weights and masks that do the opposite of what they are for; look-alikes are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from tensight.records import Event
from tests.diagnosis.builders import LOSS_LINE, Run

WEIGHED = {
    "weight_slope": 1.02,
    "weight_fit": 0.999,
    "weighed_classes": 4,
    "count_ratio": 30.0,
    "rare_class": 3,
    "rare_count": 60,
    "rare_share": 0.03,
    "rare_weight": 0.03,
    "common_class": 0,
    "common_share": 0.8,
    "common_weight": 0.8,
}


def weighed(**changed: Any) -> Run:
    run = Run()
    assert run.loss_values is not None
    run.loss_values |= WEIGHED | changed
    return run


def test_classes_that_are_weighed_by_how_frequent_they_are_are_named() -> None:
    (finding,) = weighed().learn(30).end()
    assert (finding.fault, finding.where.line) == ("class_weights_inverted", LOSS_LINE.line)
    assert "class 3" in finding.why


def test_two_classes_are_weighed_by_the_odds_the_wrong_way_round() -> None:
    assert weighed(weighed_classes=2, weight_slope=1.0).learn(30).faults() == ["class_weights_inverted"]


@pytest.mark.parametrize(
    "changed",
    [
        {"weight_slope": -1.0, "weight_fit": -1.0},
        {"weight_fit": 0.6},
        {"weight_slope": 0.4},
        {"count_ratio": 1.8},
        {"rare_count": 5},
        {"weighed_classes": 2, "weight_slope": 1.2},
        {"weighed_classes": 2, "weight_slope": 1.0, "count_ratio": 3.5},
    ],
    ids=["inverse", "by importance", "flat", "balanced", "too few seen", "two, on purpose", "two, nearly alike"],
)
def test_other_weights_are_left_alone(changed: dict[str, Any]) -> None:
    assert weighed(**changed).learn(30).faults() == []


def masked(end: float, **changed: Any) -> list[str]:
    """The gradient of each term of a loss, as it was seen in the first steps."""
    values = {"counted": 180, "of": 448, "kinds_counted": 1, "kinds_left_out": 5, "only": 0} | changed
    run = Run()
    for at in range(40):
        told = Event("terms_counted", part="cross_entropy", values=values, source=LOSS_LINE)
        run.train(max(end, 1.4 * 0.85**at), events=[*run.events(), *([told] if at < 6 else [])])
    return run.faults()


def test_a_mask_that_keeps_one_class_alone_is_named() -> None:
    assert masked(0.001) == ["loss_mask_inverted"]


@pytest.mark.parametrize(
    ("end", "changed"),
    [
        (0.001, {"kinds_counted": 5, "kinds_left_out": 1, "only": None}),
        (0.001, {"counted": 440}),
        (0.001, {"kinds_left_out": 1}),
        (0.6, {}),
    ],
    ids=["the right way round", "hardly any left out", "two classes", "one that is not known at once"],
)
def test_other_masks_are_left_alone(end: float, changed: dict[str, Any]) -> None:
    assert masked(end, **changed) == []
