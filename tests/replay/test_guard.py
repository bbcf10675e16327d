"""`--guard` stops before an update with gradients that are not finite, and only then."""

from __future__ import annotations

import pytest

from tensight.capture.recorder import StopTraining
from tensight.records import Observation, Stats, TensorInfo
from tensight.session.guard import Guarding, spoiling

TENSORS = {
    0: TensorInfo(0, "gradient", "head", "weight"),
    1: TensorInfo(1, "gradient", "head", "bias"),
    2: TensorInfo(2, "output", "head", "output.0"),
}


class FakeRecorder:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.holds = False
        self.closed_early = False

    def stop(self, reason: str) -> None:
        self.told.append(reason)

    def updated(self, optimizer: str) -> None:
        self.told.append(f"updated {optimizer}")


def seen(tensor: int, nan: int) -> Observation:
    return Observation(tensor, 0, Stats(count=4, nan=nan))


def test_bad_gradients_are_named_and_outputs_are_none():
    assert spoiling([seen(0, 1), seen(1, 0), seen(2, 3)], TENSORS) == ["head.weight"]


def test_a_gradient_that_was_mended_before_the_update_counts_as_good():
    assert spoiling([seen(0, 1), seen(0, 0)], TENSORS) == []


def test_the_step_is_closed_and_the_script_ended_before_a_spoiling_update():
    recorder = FakeRecorder()
    with pytest.raises(StopTraining):
        Guarding(recorder).before_update("SGD", [seen(0, 1), seen(1, 2)], TENSORS)
    assert recorder.told == [
        "guard: the gradient of head.weight and 1 more is not finite; the update was not made",
        "updated SGD",
    ]


def test_while_the_step_is_run_again_the_update_is_no_step_of_its_own():
    recorder = FakeRecorder()
    recorder.holds = True
    guard = Guarding(recorder)
    guard.before_update("SGD", [seen(0, 1)], TENSORS)
    assert recorder.closed_early
    with pytest.raises(StopTraining):
        guard.before_update("SGD", [seen(0, 1)], TENSORS)


def test_a_good_update_passes():
    recorder = FakeRecorder()
    Guarding(recorder).before_update("SGD", [seen(0, 0)], TENSORS)
    assert recorder.told == []
