"""Loops written by hand: several networks, targets of one's own, batches that are made between two steps."""

from __future__ import annotations

from typing import Any

import pytest

from tensight.diagnosis import Engine
from tensight.records import (
    Event,
    Finding,
    Module,
    Network,
    Observation,
    Parameter,
    Part,
    Source,
    StepRecord,
    TensorInfo,
)
from tests.diagnosis.builders import Run, stats

PASS_LINE = Source("train.py", 43, "loss_g.backward()")
BATCH_LINE = Source("train.py", 31, "batch = next_batch(64)")


def game(*passes: dict[str, Any]) -> list[str]:
    """A critic that is trained well, and the passes of a generator's loss, which belong to the critic by name."""
    run = Run()
    run.engine.network(Network("gen", "Gen", (Module("", "Gen"),), (Parameter("w", (4, 4), "float32", optimizer="G"),)))
    run.engine.part(Part("optimizer", "G", "Adam", {}, None, ("gen:w",)))
    for at in range(30):
        other = [Event("backward", part="net", values={"cleared": False, **one}, source=PASS_LINE) for one in passes]
        other.append(Event("optimizer_step", part="G", source=Source("train.py", 51)))
        run.train(1.4 - 0.02 * at, events=[*run.events(), *other])
    return run.faults()


def test_a_generator_whose_gradients_are_never_cleared_is_named() -> None:
    assert game({"added_to": "gen"}) == ["missing_zero_grad"]


@pytest.mark.parametrize(
    "passes",
    [
        ({"begun_in": "gen"},),
        ({"begun_in": "gen"}, {"added_to": "gen"}),  # cleared by hand, and then two losses
        ({},),
    ],
)
def test_a_generator_whose_gradients_are_cleared_by_hand_has_no_finding(passes: tuple[dict[str, Any], ...]) -> None:
    assert game(*passes) == []


def test_a_critic_that_is_cleared_unseen_after_a_generators_pass_has_no_finding() -> None:
    run = Run()
    run.engine.network(Network("gen", "Gen", (Module("", "Gen"),), (Parameter("w", (4, 4), "float32", optimizer="G"),)))
    run.engine.part(Part("optimizer", "G", "Adam", {}, None, ("gen:w",)))
    for at in range(30):
        other = [
            Event("zero_grad", part="G"),
            Event("backward", part="gen", values={"cleared": True, "added_to": "net"}, source=PASS_LINE),
            Event("optimizer_step", part="G", source=Source("train.py", 51)),
        ]
        run.train(1.4 - 0.02 * at, events=[*other, *run.events(zero=False)])  # critic.zero_grad() is the module's
    assert run.faults() == []


@pytest.mark.parametrize(
    ("passes", "faults"),
    [
        ([False], ["missing_zero_grad"]),
        ([True], []),
        ([True, False], []),  # two losses in one step
    ],
)
def test_updates_by_hand_that_never_clear_gradients_are_named(passes: list[bool], faults: list[str]) -> None:
    engine = Engine(on_error=lambda where, error: pytest.fail(f"{where}: {error!r}"))
    engine.network(Network("net", "Net", (Module("", "Net"),), (Parameter("w", (4, 4), "float32"),)))
    for step in range(30):
        events = [
            Event("backward", part="net", values={"cleared": cleared or not step}, source=PASS_LINE)
            for cleared in passes
        ]
        loss = 1.4 - 0.02 * step
        engine.step(StepRecord(step, float(step), 0.01, loss, losses=(loss,), depth=2, events=tuple(events)))
    engine.end(crashed=False)
    assert [finding.fault for finding in engine.findings] == faults


def test_updates_by_hand_that_keep_a_part_of_each_gradient_on_purpose_have_no_finding() -> None:
    engine = Engine(on_error=lambda where, error: pytest.fail(f"{where}: {error!r}"))
    engine.network(Network("net", "Net", (Module("", "Net"),), (Parameter("w", (4, 4), "float32"),)))
    for step in range(30):
        kept = Event("backward", part="net", values={"cleared": not step, "kept": bool(step)}, source=PASS_LINE)
        loss = 1.4 - 0.02 * step
        engine.step(StepRecord(step, float(step), 0.01, loss=loss, losses=(loss,), depth=2, events=(kept,)))
    engine.end(crashed=False)
    assert engine.findings == []


def written_out(dead: bool, loss: float) -> list[Finding]:
    """Twenty steps of a network of plain tensors: w1, a ReLU, w2, a bias that learns in any case."""
    engine = Engine(on_error=lambda where, error: pytest.fail(f"{where}: {error!r}"))
    line = Source("train.py", 12, "h = torch.relu(h @ w1)")
    tensors = (
        TensorInfo(0, "activation", "", "relu#0", shape=(64, 8), type="relu", op="relu", source=line),
        TensorInfo(1, "gradient", "", "w1", shape=(8, 8), phase="backward"),
        TensorInfo(2, "gradient", "", "bias", shape=(8,), phase="backward"),
    )
    for info in tensors:
        engine.tensor(info)
    for step in range(20):
        value = 1.4 if not step else loss
        sizes = (0.0, 0.0, 0.1) if dead else (0.5, 0.1, 0.1)
        seen = tuple(
            Observation(info.id, order, stats(size), "backward" if order else "forward")
            for order, (info, size) in enumerate(zip(tensors, sizes, strict=True))
        )
        passed = Event("backward", part="", values={}, source=PASS_LINE)
        engine.step(
            StepRecord(
                step, float(step), 0.01, loss=value, losses=(value,), depth=2, observations=seen, events=(passed,)
            )
        )
    engine.end(crashed=False)
    return engine.findings


def test_a_dead_relu_among_plain_tensors_is_named_where_it_is_called() -> None:
    (finding,) = written_out(dead=True, loss=1.2)
    assert (finding.fault, finding.since_step, finding.where.line) == ("dead_relu", 0, 12)
    assert "w1" in finding.why
    assert "bias" not in finding.why


@pytest.mark.parametrize(("dead", "loss"), [(False, 1.2), (True, 0.001)])
def test_a_relu_among_plain_tensors_that_fires_or_has_nothing_left_to_lower_has_no_finding(
    dead: bool, loss: float
) -> None:
    assert written_out(dead, loss) == []


def learnt(bootstraps: bool) -> Run:
    run = Run()
    assert run.loss_values is not None
    run.loss_values |= {"function": "mse_loss", "target_variance": 0.5}
    if bootstraps:
        run.loss_values["target_bootstraps"] = True
    return run.learn(30)


def test_a_bootstrap_target_that_keeps_its_gradient_is_named_where_the_loss_is() -> None:
    (finding,) = learnt(bootstraps=True).end()
    assert (finding.fault, finding.since_step, finding.where.line) == ("bootstrap_target_not_detached", 0, 20)


def test_a_target_without_a_graph_has_no_finding() -> None:
    assert learnt(bootstraps=False).faults() == []


def test_a_training_that_waits_for_batches_of_its_own_points_to_the_line_that_makes_them() -> None:
    run = Run()
    run.seconds = 0.1
    run.scalars["before_forward"] = 0.095
    run.train(events=[*run.events(), Event("fed_by", part="net", source=BATCH_LINE)])
    (finding,) = run.learn(40).end()
    assert (finding.fault, finding.where.line) == ("data_loading_starvation", 31)


@pytest.mark.parametrize("code", ["x = data[i]", "x, y = torch.randn(32, 8), torch.randn(32, 1)", None])
def test_a_loop_that_sleeps_or_logs_between_steps_does_not_wait_for_data(code: str | None) -> None:
    run = Run()
    run.seconds = 0.1
    run.scalars["before_forward"] = 0.095
    told = [Event("fed_by", part="net", source=Source("train.py", 31, code))] if code is not None else []
    run.train(events=[*run.events(), *told])
    assert run.learn(40).faults() == []


@pytest.mark.parametrize(("steps", "faults"), [(10, ["penalty_without_gradient"]), (2, [])])
def test_a_penalty_that_is_a_number_in_several_steps_is_named(steps: int, faults: list[str]) -> None:
    run = Run()
    told = Event("number_in_loss", part="net", values={"term": "10 * penalty", "line": 20}, source=PASS_LINE)
    for at in range(20):
        run.train(1.4 - 0.02 * at, events=[*run.events(), *([told] if at < steps else [])])
    assert run.faults() == faults
