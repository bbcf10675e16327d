"""Networks that guide a training without being trained: teachers, targets, running means of weights."""

from __future__ import annotations

from tensight.records import Event, Module, Network, Parameter, Source
from tests.diagnosis.builders import Run

ASKED = Source("train.py", 31, "soft = teacher(x).softmax(1)")
DROPOUT = Module("drop", "Dropout", settings={"p": 0.5})


def guided(
    *,
    training: bool = True,
    modules: tuple[Module, ...] = (DROPOUT,),
    moves: float = 0.0,
    writes: int = 0,
    dtype: str = "float32",
    name: str = "fc1.weight",
    size: float = 0.05,
    steps: int = 60,
    first: int = 0,
) -> Run:
    """A training that asks a frozen teacher in each step from `first` on, and marks a weight of it in every tenth."""
    run = Run()
    weight = Parameter(name, (8, 8), dtype, trainable=False, module="fc1")
    parts = (Module("", "Teacher"), Module("fc1", "Linear", source=Source("train.py", 12)), *modules)
    run.engine.network(Network("teacher", "Teacher", parts, (weight,)))
    for step in range(steps):
        values = {"training": training, "grad": False}
        if step % 10 == 0:
            values |= {"frozen": name, "unchanged": 1 - moves, "written": writes * step, "dtype": dtype}
            values["size"] = size
        asked = Event("forward", part="teacher", values=values, source=ASKED)
        run.train(1.4 - step / 60, events=[*([asked] if step >= first else []), *run.events()])
    return run


def test_a_frozen_teacher_in_training_mode_is_named_where_it_is_asked() -> None:
    (finding,) = guided().end()
    assert (finding.fault, finding.category) == ("frozen_network_in_training_mode", "mode")
    assert (finding.where.line, finding.where.module, finding.where.network) == (31, "drop", "teacher")
    assert "Dropout" in finding.why
    assert "teacher.eval()" in finding.fix[0]


def test_a_teacher_in_evaluation_mode_is_fine() -> None:
    assert guided(training=False).faults() == []


def test_a_teacher_without_any_module_that_cares_is_fine() -> None:
    assert guided(modules=()).faults() == []


def test_a_running_mean_of_the_student_may_be_in_training_mode() -> None:
    assert guided(moves=0.9, writes=2).faults() == []


def test_a_few_steps_say_nothing_of_a_teacher() -> None:
    assert guided(steps=15).faults() == []


def test_a_running_mean_that_is_written_and_never_moves_is_lost_to_rounding() -> None:
    (finding,) = guided(modules=(), writes=2, dtype="bfloat16").end()
    assert (finding.fault, finding.category) == ("bf16_lost_updates", "precision")
    assert (finding.where.parameter, finding.where.network) == ("fc1.weight", "teacher")
    assert "written in place 100 times" in finding.why
    assert "float32" in finding.fix[0]


def test_a_running_mean_that_is_first_called_late_was_lost_since_it_was_first_written() -> None:
    (finding,) = guided(modules=(), writes=2, dtype="bfloat16", first=20).end()
    assert (finding.fault, finding.since_step) == ("bf16_lost_updates", 0)


def test_a_coarse_copy_that_nobody_writes_is_no_running_mean() -> None:
    assert guided(modules=(), dtype="bfloat16").faults() == []


def test_a_running_mean_that_moves_is_not_lost() -> None:
    assert guided(modules=(), writes=2, moves=0.9, dtype="bfloat16").faults() == []


def test_a_mean_of_nothing_that_is_trained_has_no_reason_to_move() -> None:
    assert guided(modules=(), writes=2, dtype="bfloat16", name="elsewhere.weight").faults() == []


def test_a_running_mean_that_has_arrived_has_no_reason_to_move() -> None:
    assert guided(modules=(), writes=2, dtype="bfloat16", size=0.2).faults() == []


def test_a_float32_weight_that_is_written_with_its_own_values_is_left_alone() -> None:
    assert guided(modules=(), writes=2).faults() == []


def teaching(*, training: bool = True, size: tuple[float, ...] = (1.0,), steps: int = 60) -> Run:
    """A training whose target is what a frozen part of the network answers."""
    run = Run()
    for step in range(steps):
        values = {"module": "teacher", "training": training, "inner": "teacher.drop", "count": 1, "kinds": "Dropout"}
        values["size"] = size[step % len(size)]
        given = Event("fixed_part", part="net", values=values, source=ASKED)
        run.train(1.4 - step / 60, events=[*([given] if step % 4 == 0 else []), *run.events()])
    return run


def test_a_frozen_part_that_gives_the_target_in_training_mode_is_named() -> None:
    (finding,) = teaching().end()
    assert (finding.fault, finding.category) == ("frozen_network_in_training_mode", "mode")
    assert (finding.where.module, finding.where.network, finding.where.line) == ("teacher", "net", 31)
    assert "model.teacher.eval()" in finding.fix[0]


def test_a_frozen_part_in_evaluation_mode_or_that_follows_the_student_is_fine() -> None:
    assert teaching(training=False).faults() == []
    assert teaching(size=(1.0, 1.1, 1.2)).faults() == []
    assert teaching(steps=16).faults() == []
