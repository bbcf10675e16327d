"""Targets that are trained too and collapse; schedules that turn back."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tensight.records import Event, Part, Source
from tests.diagnosis.builders import LOSS_LINE, Run


def trained_targets(
    *,
    spread: float = 0.01,
    loss: float = 0.001,
    learnt: bool = True,
    beside: bool = False,
    steps: int = 80,
    stage: int = 0,
) -> Run:
    """A loss between two outputs of the network; spread and loss fall to what is given."""
    run = Run()
    labels = dict(run.loss_values or {})
    if stage:  # it was trained by labels before
        run.learn(stage)
    for at in range(steps):
        share = at / (steps - 1)
        value = 1.0 * loss**share
        values: dict[str, Any] = {"function": "mse_loss", "value": value, "grad": True}
        if learnt:
            values |= {"target_learnt": True, "target_spread": 0.5 * (spread / 0.5) ** share}
        run.loss_values = values
        events = run.events()
        if beside:
            other = Source("train.py", 21, "F.cross_entropy(net(x), y)")
            events.insert(1, Event("loss", part="other", values=labels, source=other))
        run.train(value, events=events)
    return run


def test_targets_that_are_trained_and_become_the_same_for_all_samples_are_named() -> None:
    (finding,) = trained_targets().end()
    (after,) = trained_targets(stage=20).end()
    assert (after.fault, after.since_step) == ("representation_collapse", 20)
    assert (finding.fault, finding.category, finding.since_step) == ("representation_collapse", "graph-wiring", 0)
    assert finding.where.line == LOSS_LINE.line
    assert "detach" in finding.fix[0]


@pytest.mark.parametrize(
    "run",
    [
        {"learnt": False},
        {"spread": 0.3},  # two sides that agree and still tell samples apart
        {"loss": 0.5},
        {"beside": True},  # labels hold the answers in place
        {"steps": 30},
    ],
)
def test_trained_targets_that_stay_apart_are_left_alone(run: dict[str, Any]) -> None:
    assert "representation_collapse" not in trained_targets(**run).faults()


def annealed(*, end: int = 20, steps: int = 100, kind: str = "CosineAnnealingLR", warm: int = 0, every: int = 1) -> Run:
    """A cosine that is stepped after so many updates."""
    run = Run()
    run.engine.part(Part("scheduler", kind, kind, {"T_max": end, "optimizer": "SGD"}))
    line = Source("train.py", 30, "scheduler.step()")
    for at in range(steps):
        run.lr = 0.1 * (at + 1) / warm if at < warm else 0.05 * (1 + math.cos(math.pi * (at - warm) / end))
        stepped = [Event("scheduler_step", part=kind, source=line)] if at % every == 0 else []
        run.train(1.4 - at / steps, events=[*run.events(), *stepped])
    return run


def test_an_annealing_that_is_stepped_past_its_end_is_named_since_it_turned_back() -> None:
    (finding,) = annealed().end()
    assert (finding.fault, finding.category, finding.since_step) == ("lr_schedule_turns_back", "lr-schedule", 20)
    assert finding.where.line == 30
    assert "T_max" in finding.fix[0]


@pytest.mark.parametrize(
    "run",
    [
        {"end": 100},
        {"end": 80, "warm": 20},
        {"end": 95},  # a few calls too many
        {"kind": "CosineAnnealingWarmRestarts"},  # on purpose
        {"end": 10, "steps": 200, "every": 4},  # by epochs: it may be on purpose too
    ],
)
def test_an_annealing_that_ends_or_is_meant_to_begin_again_is_left_alone(run: dict[str, Any]) -> None:
    assert "lr_schedule_turns_back" not in annealed(**run).faults()


def compared(*, both: bool = True, spread: float = 0.03, alike: float = 0.99) -> list[str]:
    """A loss written as an expression of the cosine of two answers, looked at every twenty steps."""
    run = Run()
    run.loss_values = {"function": "expression", "operators": "neg, mean, cosine_similarity"}
    for at in range(200):
        values = {"both": both, "spread": 0.8 if at < 20 else spread, "alike": 0.1 if at < 20 else alike}
        told = [Event("agreeing", part="net", values=values, source=LOSS_LINE)] if at % 20 == 0 else []
        run.train(-values["alike"], events=[*told, *run.events()])
    return run.faults()


def test_trained_answers_that_a_cosine_made_the_same_are_named() -> None:
    assert compared() == ["representation_collapse"]


@pytest.mark.parametrize("course", [{"both": False}, {"spread": 0.4}, {"alike": 0.5}])
def test_answers_that_still_differ_or_have_a_fixed_target_are_left_alone(course: dict[str, Any]) -> None:
    assert compared(**course) == []
