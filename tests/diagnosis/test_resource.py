"""Functions that are compiled again and again."""

from __future__ import annotations

from tensight.records import Event, Source

from .builders import Run

LINE = Source("model.py", 12, "x = self.first(x)")
SIZES = "0/0: tensor 'x' size mismatch at index 1. expected 7, actual 8"


def compiles(run: Run, again: int, *, reason: str = SIZES, frame: int = 0) -> Run:
    values = {"graphs": again + 1, "breaks": 0, "recompiles": again, "frame": frame, "again": again, "reason": reason}
    return run.train(2.0, events=[Event("compile", part="net", values=values, source=LINE), *run.events()])


def test_a_function_that_is_compiled_again_and_again_is_a_storm() -> None:
    run = Run().learn(3)
    for again in range(7):
        compiles(run, again)
    (finding,) = [finding for finding in run.end() if finding.fault == "recompilation_storm"]
    assert finding.where.op == "torch.compile"
    assert (finding.category, finding.since_step, finding.where.line) == ("resource", 4, 12)
    assert "6 times" in finding.why
    assert "size mismatch" in finding.why
    assert "dynamic=True" in finding.fix[0]


def test_a_storm_of_numbers_has_another_remedy_than_one_of_shapes() -> None:
    run = Run().learn(3)
    for again in range(7):
        compiles(run, again, reason="0/0: self.number == 3.0")
    (finding,) = [finding for finding in run.end() if finding.fault == "recompilation_storm"]
    assert "belongs in a tensor" in finding.fix[0]


def test_training_evaluation_and_a_last_small_batch_are_no_storm() -> None:
    run = Run()
    for again in range(4):
        compiles(run, again, reason="0/0: GLOBAL_STATE changed: grad_mode")
    assert run.learn(20).faults() == []


def test_many_functions_compiled_once_each_are_no_storm() -> None:
    run = Run()
    for frame in range(20):
        compiles(run, 0, frame=frame)
    assert run.learn(20).faults() == []


def test_a_storm_is_placed_where_the_changing_number_is_used() -> None:
    told = "0/6: self.calls == 6     # self.calls += 1  # somewhere/model.py:9 in forward (HINT: make it dynamic"
    run = Run().learn(3)
    for again in range(7):
        compiles(run, again, reason=told)
    (finding,) = [finding for finding in run.end() if finding.fault == "recompilation_storm"]
    assert (finding.where.line, finding.where.code) == (9, "self.calls += 1")
    assert "self.calls == 6" in finding.why
    assert "HINT" not in finding.why


def test_a_reason_that_lies_in_another_file_does_not_move_the_place() -> None:
    run = Run().learn(3)
    for again in range(7):
        compiles(run, again, reason="0/6: n == 6     # n += 1  # torch/nn/other.py:9 in forward")
    (finding,) = [finding for finding in run.end() if finding.fault == "recompilation_storm"]
    assert finding.where.line == 12


def test_hooks_that_pile_up_are_named_where_they_are_registered() -> None:
    values = {"module": "lstm", "owner": "LSTM", "since": 1, "alive": 10}
    line = Source("train.py", 40, "model.lstm.register_forward_hook(save)")
    run = Run().learn(12)
    run.train(2.0, events=[Event("hooks_kept", part="net", values=values, source=line), *run.events()])
    (finding,) = run.learn(20).end()
    assert (finding.fault, finding.category, finding.since_step) == ("hooks_pile_up", "resource", 1)
    assert (finding.where.line, finding.where.module) == (40, "lstm")


def _kept(*stairs: int, width: int = 25) -> list[str]:
    """So many graphs alive for `width` steps, then so many."""
    run = Run()
    for level in stairs:
        run.scalars["graphs_alive"] = float(level)
        run.learn(width)
    return run.faults()


def test_graphs_that_each_evaluation_leaves_for_good_are_named() -> None:
    assert _kept(0, 4, 8) == ["graph_retained_by_accumulation"]


def test_graphs_of_the_last_evaluation_alone_or_that_are_given_up_again_are_fine() -> None:
    assert _kept(0, 4, 4) == []
    assert _kept(0, 4, 0, 4) == []
    assert _kept(0, 1, 2) == []
    assert _kept(0, 4, 8, 12, 16, 16, 16, width=5) == []  # the last few, within fewer steps than settle it
