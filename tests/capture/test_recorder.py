"""What happens in a training becomes steps, judged, stored and explained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from tensight.capture.budget import Budget
from tensight.capture.companion import Companion
from tensight.capture.deep import DeepSteps
from tensight.capture.recorder import Recorder, StopTraining
from tensight.capture.troubles import MOST_TROUBLES
from tensight.diagnosis.engine import Engine
from tensight.errors import UsageError
from tensight.records import (
    Coverage,
    Depth,
    Finding,
    Hit,
    Network,
    Part,
    RunInfo,
    Stats,
    StepRecord,
    TensorInfo,
    Watchpoint,
)
from tensight.runs import open_run
from tensight.store import Writer
from tensight.watchpoints.checker import Checker


class Silent:
    """A voice that keeps what it was told."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def covered(self, coverage: Coverage) -> None: ...
    def first_step(self, record: StepRecord, tensors: dict[int, TensorInfo], networks: list[Network]) -> None: ...
    def step(self, record: StepRecord, cost: float | None) -> None: ...
    def finding(self, finding: Finding) -> None: ...
    def hit(self, hit: Hit) -> None: ...
    def failed(self, where: str, error: BaseException, *, again: bool) -> None:
        self.failures.append(where)


def recorder(folder: Path, points: Sequence[Watchpoint] = (), **more: object) -> Recorder:
    writer = Writer(folder, RunInfo(id="run", command=("train.py",), started=0.0))
    return Recorder(writer, Checker(points), Engine(rules=[]), Budget(100), Silent(), **more)  # type: ignore[arg-type]


def train(sink: Recorder, losses: Sequence[float], optimizers: Sequence[str] = ("SGD",)) -> None:
    for name in optimizers:
        sink.part(Part("optimizer", name, "SGD"))
    number = sink.new_id()
    sink.tensor(TensorInfo(id=number, kind="output", node="fc", slot="output.0"))
    for loss in losses:
        sink.forward("net", True)
        sink.observe(number, Stats(count=1, positive=1, min=loss, max=loss, mean=loss, abs_mean=abs(loss)))
        sink.forwarded("net")
        for name in optimizers:
            sink.loss(loss)
            sink.backward()
            sink.updated(name)


def test_steps_count_from_0_and_hold_their_loss_and_observations(tmp_path: Path) -> None:
    sink = recorder(tmp_path)
    train(sink, [3.0, 2.0, 1.0])
    sink.finish("finished", script_exit=0, crashed=False)
    steps = list(open_run(tmp_path).steps)
    assert [(step.step, step.loss, len(step.observations)) for step in steps] == [(0, 3.0, 1), (1, 2.0, 1), (2, 1.0, 1)]


def test_a_round_of_two_optimizers_is_one_step_with_two_losses(tmp_path: Path) -> None:
    sink = recorder(tmp_path)
    train(sink, [3.0, 2.0], ["D", "G"])
    sink.finish("finished", script_exit=0, crashed=False)
    assert [step.losses for step in open_run(tmp_path).steps] == [(3.0, 3.0), (2.0, 2.0)]


def test_what_was_gathered_is_cut_at_the_right_place_when_a_step_ends_late(tmp_path: Path) -> None:
    sink = recorder(tmp_path)
    sink.part(Part("optimizer", "unused", "SGD"))
    train(sink, [3.0, 2.0, 1.0])
    sink.finish("finished", script_exit=0, crashed=False)
    steps = list(open_run(tmp_path).steps)
    assert [step.losses for step in steps] == [(3.0,), (2.0,), (1.0,)]
    assert [step.observations[0].stats.max for step in steps] == [3.0, 2.0, 1.0]


def test_hits_are_part_of_their_step(tmp_path: Path) -> None:
    point = Watchpoint(id=1, condition="TL", parameters={"max_gt": 2.5}, on="output:*", name="large")
    sink = recorder(tmp_path, [point])
    train(sink, [3.0, 2.0])
    sink.finish("finished", script_exit=0, crashed=False)
    assert [(hit.step, hit.actual) for hit in open_run(tmp_path).hits] == [(0, {"max_gt": 3.0})]


def test_the_script_is_stopped_cleanly_after_so_many_steps(tmp_path: Path) -> None:
    sink = recorder(tmp_path, max_steps=2)
    with pytest.raises(StopTraining) as stop:
        train(sink, [3.0, 2.0, 1.0])
    assert stop.value.code == 0
    assert sink.step == 2


def test_without_training_each_call_is_a_step_and_the_last_is_not_lost(tmp_path: Path) -> None:
    sink = recorder(tmp_path)
    number = sink.new_id()
    sink.tensor(TensorInfo(id=number, kind="output", node="", slot="output.0"))
    for value in (1.0, 2.0, 3.0):
        sink.forward("net", False)
        sink.observe(number, Stats(count=1, max=value, min=value))
        sink.forwarded("net")
    sink.finish("finished", script_exit=0, crashed=False)
    steps = list(open_run(tmp_path).steps)
    assert [step.observations[0].stats.max for step in steps] == [1.0, 2.0, 3.0]
    assert not any(step.training for step in steps)


def called(sink: Recorder, values: Sequence[float], *, training: bool = False) -> None:
    number = sink.new_id()
    sink.tensor(TensorInfo(id=number, kind="output", node="fc", slot="output.0"))
    for value in values:
        sink.forward("net", training)
        sink.observe(number, Stats(count=1, positive=1, min=value, max=value, mean=value, abs_mean=value))
        sink.forwarded("net")


def test_with_an_optimizer_that_never_steps_each_call_was_a_step(tmp_path: Path) -> None:
    sink = recorder(
        tmp_path, [Watchpoint(id=1, condition="TL", parameters={"max_gt": 2.5}, on="output:*", name="large")]
    )
    sink.part(Part("optimizer", "SGD", "SGD"))
    called(sink, [1.0, 2.0, 3.0])
    assert sink.step == 0
    sink.finish("finished", script_exit=0, crashed=False)
    run = open_run(tmp_path)
    assert [(step.step, step.training, [one.stats.max for one in step.observations]) for step in run.steps] == [
        (0, False, [1.0]),
        (1, False, [2.0]),
        (2, False, [3.0]),
    ]
    assert [hit.step for hit in run.hits] == [2]


def test_an_evaluation_before_the_first_step_of_a_training_does_not_shift_its_counting(tmp_path: Path) -> None:
    sink = recorder(tmp_path)
    sink.part(Part("optimizer", "SGD", "SGD"))
    called(sink, [7.0, 8.0])
    train(sink, [3.0, 2.0])
    called(sink, [9.0, 9.0])
    sink.finish("finished", script_exit=0, crashed=False)
    assert [(step.step, step.loss, step.training) for step in open_run(tmp_path).steps] == [
        (0, 3.0, True),
        (1, 2.0, True),
    ]


def test_a_training_that_fails_before_its_first_backward_has_no_step(tmp_path: Path) -> None:
    sink = recorder(tmp_path)
    sink.part(Part("optimizer", "SGD", "SGD"))
    called(sink, [1.0], training=True)
    sink.finish("failed", script_exit=1, crashed=True)
    assert open_run(tmp_path).step_count == 0


def test_an_error_in_a_companion_is_told_and_stops_nobody(tmp_path: Path) -> None:
    class Broken(Companion):
        def step_ended(self, record: StepRecord, findings: Sequence[Finding]) -> None:
            raise RuntimeError("broken")

    sink = recorder(tmp_path, companions=[Broken()])
    train(sink, [3.0, 2.0])
    end = sink.finish("finished", script_exit=0, crashed=False)
    assert end.steps == 2
    assert any("Broken" in line for line in end.lost)


def test_steps_the_user_asked_for_are_captured_at_full_depth(tmp_path: Path) -> None:
    sink = recorder(tmp_path, deep=DeepSteps.parse("1"))
    seen = []

    class Looking(Companion):
        def step_began(self, step: int) -> None:
            seen.append((step, sink.level, sink.keep_tensors, sink.depth))

    sink.companions.append(Looking())
    train(sink, [3.0, 2.0, 1.0])
    assert seen == [
        (0, "watch", False, Depth.ALL),
        (1, "op", True, Depth.ALL),
        (2, "watch", False, Depth.ALL),
    ]


@pytest.mark.parametrize("text", ["", "a", "3-", "5-3", "1,,2", "-1"])
def test_steps_that_cannot_be_read_are_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="--steps"):
        DeepSteps.parse(text)


def test_the_steps_behind_each_new_trouble_are_watched_whole(tmp_path: Path) -> None:
    sink = recorder(tmp_path)
    told: list[int] = []
    sink.budget.trouble = told.append  # type: ignore[method-assign]
    train(sink, [1.0, math.nan, math.nan, 1.0, math.inf, 1.0])
    assert told == [1, 4]  # a loss that stays broken is no news
    train(sink, [math.nan, 1.0] * 50)
    assert len(told) == MOST_TROUBLES


def test_tensors_that_cannot_be_observed_fill_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensight.capture.recorder.MOST_OBSERVATIONS", 3)
    sink = recorder(tmp_path)
    sink.tensor(TensorInfo(id=(number := sink.new_id()), kind="output", node="fc", slot="output.0"))
    for _ in range(10):
        sink.unobserved(number, "dtype")
    train(sink, [1.0])
    assert len(open_run(tmp_path).steps[0].observations) == 3
