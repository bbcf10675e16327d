"""The first value that is not finite: in the data, forward, loss, backward, update."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from tensight.records import Event, Finding, Observation, Source, StepRecord
from tests.diagnosis.builders import Run, nan, stats

ROOT = Source("train.py", 15, "return torch.sqrt(d2.sum(1))", "distance")


def _gradients_break(run: Run) -> None:
    run.learn(9, 1.0, 0.5)
    for layer in run.layers:
        layer.gradient = nan(256)
    run.train(0.5)


def test_gradients_that_break_under_a_finite_loss_are_placed_in_the_backward_pass() -> None:
    run = Run()
    _gradients_break(run)
    (finding,) = run.end()
    assert finding.category == "numeric-nonfinite"
    assert finding.since_step == 9
    assert "backward pass; forward values were all finite" in finding.since


def test_a_replay_names_the_operator_its_line_and_the_reason() -> None:
    run = Run()
    _gradients_break(run)
    before = run.engine.findings[0].fault
    facts = {"in.0.zero": 3, "in.0.count": 32, "in.0.min": 0.0, "in.0.max": 4.0, "node": "SqrtBackward0", "bad_nan": 3}
    new = run.replay("aten.sqrt", 9, phase="backward", source=ROOT, facts=facts, then=("12 more gradients",))
    assert before == "nonfinite_value"
    assert [finding.fault for finding in new] == ["sqrt_zero_gradient"]
    (finding,) = run.end()
    assert (finding.where.file, finding.where.line) == ("train.py", 15)
    assert finding.where.op == "aten.sqrt"
    assert finding.replay == "exact"
    assert "3 of 32" in finding.why
    assert "infinite slope" in finding.why


def test_a_bad_value_that_a_mask_drops_before_the_loss_is_said_to_come_back_in_backward() -> None:
    run = Run()
    _gradients_break(run)
    run.replay("aten.log", 9, phase="forward", source=ROOT, facts=LOG)
    (finding,) = run.end()
    assert (finding.fault, finding.since_step) == ("log_of_zero", 9)
    assert "The loss is finite all the same" in finding.why
    assert "choose before log" in finding.fix[-1]


def test_a_bad_value_that_reached_the_loss_was_not_dropped() -> None:
    run = Run()
    run.learn(9, 1.0, 0.5)
    for layer in run.layers:
        layer.gradient = nan(256)
    run.train(math.nan)
    run.replay("aten.log", 9, phase="forward", source=ROOT, facts=LOG)
    (finding,) = run.end()
    assert finding.fault == "log_of_zero"
    assert "all the same" not in finding.why


def test_a_nan_in_the_batch_is_the_datas_fault_and_nothing_elses() -> None:
    run = Run()
    run.learn(5)
    run.input = nan(64, 1)
    for layer in run.layers:
        layer.output = layer.gradient = nan()
    run.train(math.nan)
    (finding,) = run.end()
    assert (finding.fault, finding.category, finding.since_step) == ("nan_in_input", "data", 5)
    assert finding.where.module == "fc1"


DIVIDED = {
    "kind": "made",
    "name": "",
    "bad": 64,
    "bad_nan": 64,
    "bad_of": 64,
    "in.0.shape": "8x8",
    "in.0.dtype": "float32",
    "in.0.count": 64,
    "in.0.zero": 64,
    "in.0.min": 0.0,
    "in.0.max": 0.0,
    "in.1.shape": "",
    "in.1.dtype": "float32",
    "in.1.count": 1,
    "in.1.zero": 1,
    "in.1.min": 0.0,
    "in.1.max": 0.0,
}


def _batch_of_nan(**replay: Any) -> Finding:
    """A batch that came out of its loader with NaN in it, and what looking again at the step has shown."""
    run = Run()
    run.learn(5)
    run.input = nan(64, 64)
    for layer in run.layers:
        layer.output = layer.gradient = nan()
    batch = Event("batch", part="DataLoader", values={"index": 5, "nan.0": 64})
    run.train(math.nan, events=[*run.events(), batch])
    place = Source("data.py", 8, "return (image - image.mean()) / image.std()")
    run.replay("aten.div", 5, **{"phase": "forward", "source": place, "facts": DIVIDED, **replay})
    (finding,) = run.end()
    assert finding.fault == "nan_in_input"
    return finding


def test_the_line_of_the_data_set_that_made_a_nan_is_named() -> None:
    finding = _batch_of_nan()
    assert (finding.where.file, finding.where.line, finding.where.op) == ("data.py", 8, "aten.div")
    assert "made when the batch was loaded, by aten.div (data.py:8)" in finding.why
    assert "divi" in finding.why.partition("data.py:8")[2]
    assert len(finding.fix) > 1


@pytest.mark.parametrize(
    "replay",
    [{"module": "fc2"}, {"phase": "backward"}, {"facts": {**DIVIDED, "kind": "given"}}],
    ids=["inside a module", "backward", "the batch was given"],
)
def test_what_the_network_makes_of_a_bad_batch_is_not_taken_for_its_origin(replay: dict[str, Any]) -> None:
    finding = _batch_of_nan(**replay)
    assert finding.where.op is None
    assert "made when the batch was loaded" not in finding.why


def test_a_nan_in_the_targets_is_told_from_one_in_the_input() -> None:
    run = Run()
    run.learn(5)
    target = run.tensor("target", "", "target", dtype="float32")
    run.layers[0].gradient = nan()
    run.train(math.nan, observations=[*run.observations(), Observation(target, 100, nan(32, 1))])
    assert run.faults() == ["nan_in_target"]


def test_the_first_module_with_a_bad_output_is_named() -> None:
    run = Run()
    run.learn(5)
    run.layers[1].output = run.layers[2].output = nan()
    for layer in run.layers:
        layer.gradient = nan()
    run.train(math.nan)
    (finding,) = run.end()
    assert finding.where.module == "fc2"
    assert "everything that was seen before it in this step was finite" in finding.why


def test_an_infinite_float16_output_is_an_overflow_of_its_format() -> None:
    run = Run()
    run.learn(5)
    run.layers[1].dtype = "float16"
    run.tensor("output", "half", "output.0", dtype="float16", type="Linear")
    seen = run.observations()
    seen.insert(1, Observation(run.tensor("output", "half", "output.0"), 0, stats(100.0, 64, pos_inf=2)))
    run.train(math.inf, observations=seen)
    (finding,) = run.end()
    assert (finding.fault, finding.category) == ("fp16_overflow", "precision")


def test_an_output_of_minus_infinity_is_called_so() -> None:
    run = Run()
    run.learn(5)
    seen = run.observations()
    seen.insert(1, Observation(run.tensor("output", "log", "output.0"), 0, stats(1.0, 64, neg_inf=2)))
    run.train(math.nan, observations=seen)
    (finding,) = run.end()
    assert finding.title == "log gives -inf"
    assert "returned 2 -inf of 64 values" in finding.why


def test_a_loss_that_breaks_by_itself_is_placed_in_its_line() -> None:
    run = Run()
    run.learn(5)
    run.train(math.inf)
    (finding,) = run.end()
    assert finding.where.line == 20
    assert "all outputs of the network were finite" in finding.why


def test_weights_that_an_update_breaks_are_the_optimizers_fault() -> None:
    run = Run()
    run.learn(5)
    seen = run.observations()
    weight = run.tensor("weight", "fc1", "weight")
    seen = [Observation(one.tensor, one.order, nan(), one.phase) if one.tensor == weight else one for one in seen]
    run.train(0.5, observations=seen)
    (finding,) = run.end()
    assert "optimizer itself" in finding.why
    assert finding.where.op == "SGD.step"


def test_nothing_is_said_of_a_finite_run_that_was_replayed() -> None:
    run = Run()
    run.learn(10)
    run.replay("aten.sqrt", 5, phase="backward", source=ROOT)
    assert run.faults() == []


def test_a_nan_that_a_replay_meets_first_in_the_loss_function_was_in_the_target() -> None:
    run = Run()
    run.learn(12)
    run.train(math.nan, depth=0)
    line = Source("train.py", 20, "loss = F.mse_loss(net(x), y)")
    run.replay("aten.mse_loss", 12, phase="forward", source=line, facts={"kind": "given", "name": "", "bad_nan": 1})
    (finding,) = run.end()
    assert (finding.fault, finding.where.line) == ("nan_in_target", 20)


def _read_from_a_graph(line: Source) -> Finding:
    """A loss that went bad in a step that was not run again: the graph tells the operator, but no line."""
    run = Run()
    for loss in (*(1.0 - 0.05 * step for step in range(9)), math.nan):
        events = [msgspec.structs.replace(one, source=line) if one.kind == "loss" else one for one in run.events()]
        run.train(loss, events=events)
    run.replay("aten.log", 9, phase="forward", facts={"kind": "made", "in.0.zero": 3, "in.0.count": 32, "bad_inf": 3})
    (finding,) = run.end()
    return finding


def test_an_operator_without_a_line_gets_the_one_of_the_loss_that_calls_it() -> None:
    finding = _read_from_a_graph(Source("train.py", 31, "loss = -torch.log(net(x)).mean()"))
    assert finding.where.op == "aten.log"
    assert (finding.where.file, finding.where.line) == ("train.py", 31)


def test_a_line_that_does_not_call_the_operator_is_not_blamed() -> None:
    finding = _read_from_a_graph(Source("train.py", 31, "loss = criterion(net(x), logits)"))
    assert finding.where.op == "aten.log"
    assert finding.where.line is None


def _log_of_zero(code: str, dtype: str) -> Finding:
    run = Run()
    run.learn(9, 1.0, 0.5)
    run.train(math.inf)
    facts = {"kind": "made", "in.0.zero": 3, "in.0.count": 32, "in.0.dtype": dtype, "bad_inf": 3}
    run.replay("aten.log", 9, phase="forward", source=Source("train.py", 15, code), facts=facts)
    (finding,) = run.end()
    return finding


def test_a_constant_against_zero_that_float16_rounds_to_zero_is_named() -> None:
    finding = _log_of_zero("logp = torch.log(p + 1e-8)", "float16")
    assert (finding.fault, finding.category) == ("eps_underflows_in_half", "precision")
    assert "log was given 0" in finding.why
    assert "underflows" in finding.why
    assert _log_of_zero("logp = torch.log(p + 1e-8)", "float32").fault == "log_of_zero"
    assert _log_of_zero("logp = torch.log(p + 1e-6)", "float16").fault == "log_of_zero"
    assert _log_of_zero("logp = torch.log(p)  # no 1e-8 here", "float16").fault == "log_of_zero"


def _loss_unread(run: Run, steps: int) -> None:
    for _ in range(steps):
        run.engine.step(StepRecord(run.step, float(run.step), run.seconds, depth=0, events=tuple(run.events())))
        run.step += 1


LOG = {"in.0.zero": 1, "in.0.count": 128, "in.0.min": 0.0, "in.0.max": 1.0, "bad": 1, "bad_neg_inf": 1, "kind": "made"}


def test_a_replay_that_meets_the_operator_before_the_loss_was_read_again_is_of_this_trouble() -> None:
    run = Run()
    run.learn(9)
    _loss_unread(run, 4)
    run.train(math.nan, depth=0)  # step 13
    run.replay("aten.log", 10, phase="forward", source=ROOT, facts=LOG)
    (finding,) = run.end()
    assert (finding.fault, finding.since_step) == ("log_of_zero", 10)


def test_a_replay_from_before_a_finite_loss_is_of_another_matter() -> None:
    run = Run()
    run.learn(9)
    _loss_unread(run, 4)
    run.train(0.4, depth=0)
    _loss_unread(run, 2)
    run.train(math.nan, depth=0)
    run.replay("aten.log", 10, phase="forward", source=ROOT, facts=LOG)
    assert "log_of_zero" not in run.faults()


def _prepared(*, bad: int = 16, constant: bool = True, shape: str = "600x4") -> Finding:
    """A training whose data had a column of one value, which was scaled by its standard deviation."""
    run = Run()
    run.input = nan(64, bad)
    for layer in run.layers:
        layer.output = layer.gradient = nan()
    run.tensor("input", "", "input.0", dtype="float32", shape=(16, 4))
    values = {"zeros": 1, "size": 4, "places": "2", "column": 2, "nan": 600, "constant": constant, "shape": shape}
    line = Source("train.py", 5, "return (x - mean) / std")
    run.train(math.nan, events=[Event("divided_by_zero", values=values, source=line), *run.events()])
    (finding,) = run.end()
    assert finding.fault == "nan_in_input"
    return finding


def test_a_column_of_one_value_that_was_scaled_before_the_training_is_named_with_its_line() -> None:
    finding = _prepared()
    assert (finding.where.line, finding.where.op) == (5, "aten.div")
    assert "place 2 of its 4" in finding.why
    assert "constant" in finding.why
    assert "standard deviation" in finding.title
    assert "std + 1e-8" in finding.fix[0]


def test_a_division_that_does_not_fit_the_bad_batch_is_not_blamed() -> None:
    for finding in (_prepared(bad=3), _prepared(constant=False), _prepared(shape="600x7")):
        assert finding.where.line != 5
        assert "standard deviation" not in finding.title
