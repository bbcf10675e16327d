"""Steps that are slept through: counted, and heard when the loss is not finite."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tensight.capture.companion import Companion
from tensight.capture.recorder import Recorder, StopTraining
from tensight.records import Depth, Finding, Part, StepRecord
from tensight.runs import open_run
from tests.capture.test_recorder import recorder, train


def asleep(folder: Path, length: int = 100, **more: object) -> Recorder:
    """A recorder that goes to sleep after its first step."""
    sink = recorder(folder, **more)
    sink.budget.next_depth = lambda step: Depth.ASLEEP if step else Depth.ALL  # type: ignore[method-assign]
    sink.budget.sleep_length = lambda step: length  # type: ignore[method-assign]
    return sink


def test_steps_are_counted_and_not_recorded(tmp_path: Path) -> None:
    sink = asleep(tmp_path)
    train(sink, [1.0] * 20)
    end = sink.finish("finished", script_exit=0, crashed=False)
    assert end.steps == 20
    assert [step.step for step in open_run(tmp_path).steps] == [0]
    assert "only for a loss that is not finite" in end.budget_note


def test_steps_that_end_late_are_recorded_as_deep_as_they_were_seen(tmp_path: Path) -> None:
    sink = asleep(tmp_path)
    sink.part(Part("optimizer", "unused", "SGD"))
    sink.looking_since = time.perf_counter()  # as inside of a probe, of which the time counts
    late = [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    train(sink, [*late, 0.5])  # that the other one has no part in it shows with the sixth update
    assert [(step.step, step.losses, step.depth) for step in open_run(tmp_path).steps] == [
        (number, (loss,), Depth.ALL) for number, loss in enumerate(late)
    ]
    assert sink.finish("finished", script_exit=0, crashed=False).steps == 7


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_wakes_and_is_recorded_with_its_step(bad: float, tmp_path: Path) -> None:
    sink = asleep(tmp_path)
    train(sink, [1.0] * 7 + [bad] + [1.0] * 3)
    sink.finish("finished", script_exit=0, crashed=False)
    steps = {step.step: step.loss for step in open_run(tmp_path).steps}
    assert set(steps) == {0, 7}
    assert repr(steps[7]) == repr(bad)


def test_a_step_that_wakes_is_counted_once(tmp_path: Path) -> None:
    sink = asleep(tmp_path)
    train(sink, [1.0, math.nan, math.nan, 1.0])  # the first of a sleep, and another
    end = sink.finish("finished", script_exit=0, crashed=False)
    assert end.steps == 4
    assert " of 4 steps were watched whole" in end.budget_note


def test_the_sleep_ends_when_it_is_over(tmp_path: Path) -> None:
    sink = recorder(tmp_path)
    depths = iter([Depth.ASLEEP, Depth.LIGHT, Depth.ASLEEP, Depth.LIGHT])
    sink.budget.next_depth = lambda step: next(depths, Depth.LIGHT)  # type: ignore[method-assign]
    sink.budget.sleep_length = lambda step: 3  # type: ignore[method-assign]
    train(sink, [1.0] * 9)
    assert [step.step for step in open_run(tmp_path).steps] == [0, 4, 8]


def test_after_each_sleep_a_step_is_heard_by_those_who_go_along(tmp_path: Path) -> None:
    sink = asleep(tmp_path, length=4)
    heard: list[int] = []

    class Hearing(Companion):
        def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
            heard.append(record.step)

    sink.companions.append(Hearing())
    train(sink, [1.0] * 16)
    assert heard == [0, 5, 10, 15]


def test_the_script_stops_at_the_right_step_though_asleep(tmp_path: Path) -> None:
    sink = asleep(tmp_path, max_steps=6)
    with pytest.raises(StopTraining):
        train(sink, [1.0] * 20)
    assert sink.step == 6


def test_a_scaler_keeps_us_awake(tmp_path: Path) -> None:
    sink = recorder(tmp_path)
    sink.part(Part("optimizer", "SGD", "SGD"))
    assert sink._may_sleep()
    sink.part(Part("scaler", "GradScaler", "GradScaler"))
    assert not sink._may_sleep()
