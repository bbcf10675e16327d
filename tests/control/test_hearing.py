"""A training that sleeps through most of its steps still stops at the very step that was asked for."""

from __future__ import annotations

from pathlib import Path

from tensight.capture.recorder import Recorder
from tensight.control import Continue, Pause, Step, Terminate
from tensight.control.messages import Status
from tensight.records import Depth
from tests.capture.test_recorder import recorder, train
from tests.control.test_controlling import Bench


def asleep(folder: Path, length: int) -> Recorder:
    """A recorder that sleeps whenever it may, from its second step on."""
    sink = recorder(folder)
    budget = sink.budget
    budget.next_depth = lambda step: Depth.ASLEEP if step and budget.may_sleep else Depth.LIGHT  # type: ignore[method-assign]
    budget.sleep_length = lambda step: length  # type: ignore[method-assign]
    return sink


def test_steps_that_were_asked_for_are_counted_one_by_one(tmp_path: Path) -> None:
    sink = asleep(tmp_path, length=50)
    bench = Bench()
    sink.companions.append(bench.control)
    bench.link.command(Pause())
    bench.link.script.extend([Step(3), Step(30), Continue()])
    train(sink, [1.0] * 60)
    told = [one.machine for one in bench.link.sent if isinstance(one, Status)]
    paused = [one.step for one in told if one.state == "paused"]
    assert list(dict.fromkeys(paused)) == [0, 3, 33]
    assert sink.depth < 1  # and then it sleeps again


def test_a_pause_that_comes_while_it_sleeps_is_followed_when_it_wakes(tmp_path: Path) -> None:
    sink = asleep(tmp_path, length=20)
    bench = Bench()
    sink.companions.append(bench.control)
    train(sink, [1.0] * 5)
    bench.link.command(Pause())
    bench.link.script.append(Terminate())
    train(sink, [1.0] * 30)
    assert bench.stopped == ["terminated from the page"]
    assert bench.control.machine.step == 21  # the step after the sleep
