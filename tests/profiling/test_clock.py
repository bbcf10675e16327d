"""The clock of a step's parts, the windows of a plan, samples of lines and pauses; without any framework."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest

from tensight.frameworks.timing import Clock, Pauses, Plan, Steps
from tensight.frameworks.timing_delay import Delay
from tensight.frameworks.timing_lines import Sampler
from tensight.profiling import Reading
from tensight.profiling.difference import difference
from tensight.records.timing import PARTS, LoaderTime, Profile, StepTime


def spin(count: int = 2000) -> int:
    return sum(number * number for number in range(count))


def test_parts_add_up_to_the_step_and_measuring_is_in_none():
    clock = Clock()
    clock.cut()
    clock.enter("data")
    spin()
    clock.leave()
    clock.enter("forward")
    clock.enter("backward")
    spin()
    clock.leave()
    clock.leave("forward")
    spin()
    clock.enter("update")
    clock.leave()
    parts = clock.cut()
    assert sum(parts[part] for part in PARTS) == parts["seconds"]
    assert all(parts[part] > 0 for part in PARTS if part != "rest")
    assert parts["own"] > 0
    assert 0 <= parts["data_cpu"] <= parts["cpu"]


def test_between_forward_and_backward_the_loss_is_computed():
    clock = Clock()
    clock.enter("forward")
    clock.leave("forward")
    assert clock.part == "forward"
    clock.enter("backward")
    clock.leave()
    assert clock.part == "rest"


def test_windows_follow_each_other():
    turns: list[object] = []
    clock = Clock()
    steps = Steps(Plan(warm=2, clock=3, trace=2, locate=1, least_seconds=0), clock, turns.append)
    for _ in range(12):
        steps.ended({})
    assert turns == ["clock", "trace", "locate", None]
    assert [time.window for time in steps.times] == ["warm"] * 2 + ["clock"] * 3 + ["trace"] * 2 + ["locate"]


def test_windows_that_are_not_asked_for_are_left_out():
    turns: list[object] = []
    steps = Steps(Plan(warm=1, clock=2, trace=0, locate=0, least_seconds=0), Clock(), turns.append)
    for _ in range(5):
        steps.ended({})
    assert turns == ["clock", None]


def test_the_line_that_runs_is_sampled_with_its_part():
    clock = Clock()
    clock.enter("data")
    sampler = Sampler(clock)
    sampler.start()
    enough = threading.Event()
    while not enough.is_set():  # until it was seen often enough, however slow the machine is
        spin()
        if sampler.samples > 5 and sampler.stacks:
            enough.set()
    sampler.stop()
    lines = sampler.lines()
    assert sampler.loop() == ()  # which is of what is outside all parts
    assert lines[0].part == "data"
    assert lines[0].source.file.endswith("test_clock.py")
    assert not sampler.is_alive()


def test_a_collection_that_the_program_asks_for_is_named():
    pauses = Pauses()
    pauses.attach()
    try:
        pauses.on = True
        gc.collect()  # this line
        seconds, collections = pauses.cut()
    finally:
        pauses.detach()
    found = pauses.record()
    assert found.asked >= 1
    assert found.full >= 1
    assert found.source is not None
    assert found.source.code.endswith("# this line")
    assert collections >= 1
    assert seconds > 0


def test_two_profiles_side_by_side():
    def profile(data: float, threads: int) -> Reading:
        times = tuple(StepTime(number, "clock", data + 0.01, data=data, forward=0.01) for number in range(5))
        return Reading(Profile(steps=times, facts={"threads": threads}))

    found = difference(profile(0.09, 1), profile(0.01, 4))
    assert (round(found.step.before, 3), round(found.step.after, 3)) == (0.1, 0.02)
    assert found.parts[0].what == "data"
    assert found.parts[0].change < 0
    assert found.settings == (("threads", "1", "4"),)


def test_a_busy_machine_does_not_make_computing_look_like_waiting():
    # the thread gets a quarter of a processor everywhere
    times = tuple(
        StepTime(number, "clock", 0.2, data=0.1, forward=0.1, cpu=0.05, data_cpu=0.025) for number in range(5)
    )
    loader = LoaderTime("DataLoader", batches=5, seconds=0.5, cpu=0.125)
    reading = Reading(Profile(steps=times, loaders=(loader,)))
    assert round(reading.available, 2) == 0.25
    assert round(reading.busy(loader), 2) == 1.0


def test_shares_of_a_step_are_those_of_a_machine_of_its_own():
    # the model waits 80 ms for a processor: data is most of what the training itself takes
    step = StepTime(0, "clock", 0.2, data=0.1, forward=0.1, delay=0.08, forward_delay=0.08)
    reading = Reading(Profile(steps=(step,) * 4))
    assert reading.own_share("data") == reading.typical("data") == pytest.approx(0.1 / 0.12)
    assert reading.share("data") == pytest.approx(0.5)  # what is shown is what went by


def test_a_wait_for_a_processor_belongs_to_the_part_it_happens_in():
    waited = iter([0.0, 1.0, 3.0, 6.0, 10.0, 15.0])

    class Told:
        known = True

        def seconds(self) -> float:
            return next(waited)

    clock = Clock(delay=Told())  # type: ignore[arg-type]
    clock.enter("data")
    clock.leave()
    clock.enter("update")
    clock.leave()
    parts = clock.cut()
    found = {part: parts[f"{part}_delay"] for part in PARTS}
    assert found == {"data": 1.0, "forward": 0.0, "backward": 0.0, "update": 3.0, "rest": 2.0 + 4.0}
    assert parts["delay"] == 10.0


def test_a_thread_that_waits_for_a_processor_is_told_from_one_that_waits_for_data():
    def busy(delay: float) -> Reading:
        step = StepTime(0, "clock", 0.2, data=0.1, forward=0.1, cpu=0.12, data_cpu=0.02, delay=0.01, data_delay=delay)
        return Reading(Profile(steps=(step,) * 4, loaders=(LoaderTime("DataLoader", batches=4, seconds=0.4),)))

    computing, waiting = busy(0.08), busy(0.0)  # 20 of 20 ms that were its own, and 20 of 100
    assert computing.busy(computing.profile.loaders[0]) == pytest.approx(1.0)
    assert waiting.busy(waiting.profile.loaders[0]) == pytest.approx(0.2)
    assert waiting.delayed == pytest.approx(0.05)


@pytest.mark.parametrize(("text", "seconds"), [("70 2000000000 5\n", 2.0), ("", 0.0), ("7 x", 0.0), (None, 0.0)])
def test_what_the_system_tells_of_waiting_threads_is_read_or_left_alone(tmp_path: Path, text, seconds):
    file = tmp_path / "schedstat"
    if text is not None:
        file.write_text(text)
    assert Delay(str(file)).seconds() == seconds


def test_use_of_workers_processors_and_matrix_units():
    steps = tuple(StepTime(number, "clock", 0.5, forward=0.5, process_cpu=0.75) for number in range(4))
    loader = LoaderTime("DataLoader", workers=2, worker_cpu=3.0)
    facts = {"flops": 4e9, "traced_steps": 2, "peak_flops": 8e9}
    reading = Reading(Profile(steps=steps, loaders=(loader,), facts=facts))
    assert reading.worker_use(loader) == pytest.approx(0.75)
    assert reading.processors == pytest.approx(1.5)
    assert reading.utilisation == pytest.approx(0.5)
    assert Reading(Profile(steps=steps)).utilisation is None
    assert reading.worker_use(LoaderTime("DataLoader")) is None
