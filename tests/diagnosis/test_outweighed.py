"""What one part of a training leaves to the others: losses added up, samples of a batch; and findings that last."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from tensight.diagnosis import Engine
from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.records import Event, Finding, Source, StepRecord, Where
from tests.diagnosis.builders import LOSS_LINE, Run

DEPTH_LINE = Source("train.py", 18, 'depth = F.mse_loss(out, y, reduction="sum")')


def two_losses(reduction: str, beside: float, *, falls: float = 0.02) -> Run:
    """A depth loss that falls, beside a classification that ends at `beside`."""
    run = Run()
    for at in range(80):
        share = at / 79
        terms = 4096.0 if reduction == "sum" else 1.0
        depth = {"function": "mse_loss", "reduction": reduction, "prediction_shape": "64x64"}
        depth |= {"value": terms * (1 - share * (1 - falls))}
        scene = {"function": "cross_entropy", "reduction": "mean", "prediction_shape": "64x6", "target_shape": "64"}
        scene |= {"value": 1.8 + share * (beside - 1.8), "classes": 6}
        events = [event for event in run.events() if event.kind != "loss"]
        events.insert(1, Event("loss", part="net", values=depth, source=DEPTH_LINE))
        events.insert(2, Event("loss", part="net", values=scene, source=LOSS_LINE))
        run.train(float(depth["value"]) + float(scene["value"]), events=events)
    return run


def test_a_sum_that_leaves_nothing_to_a_mean_is_named_with_its_line() -> None:
    (finding,) = [one for one in two_losses("sum", 1.8).end() if one.fault == "sum_instead_of_mean"]
    assert finding.where.line == 18
    assert "4096 terms" in finding.why


@pytest.mark.parametrize(("reduction", "beside"), [("mean", 1.8), ("sum", 0.4)])
def test_two_means_and_a_sum_beside_which_the_other_is_learnt_are_left_alone(reduction: str, beside: float) -> None:
    assert "sum_instead_of_mean" not in two_losses(reduction, beside).faults()


def repeated(same: bool, low: int, high: int, end: float) -> Run:
    run = Run()
    for at in range(40):
        events = list(run.events())
        events = [
            msgspec.structs.replace(one, values={**one.values, "same_rows": same}) if one.kind == "forward" else one
            for one in events
        ]
        values = {"function": "cross_entropy", "target_min": low, "target_max": high, "classes": 4, "value": 1.38}
        events = [one for one in events if one.kind != "loss"]
        events.insert(1, Event("loss", part="net", values=values, source=LOSS_LINE))
        run.train(1.38 + at / 39 * (end - 1.38), events=events)
    return run


def test_one_sample_all_through_each_batch_is_named() -> None:
    faults = repeated(True, 0, 3, 1.38).faults()
    assert faults == ["constant_input"]


@pytest.mark.parametrize(("same", "high", "end"), [(False, 3, 1.38), (True, 0, 1.38), (True, 3, 0.2)])
def test_different_samples_one_label_and_what_is_learnt_are_left_alone(same: bool, high: int, end: float) -> None:
    assert "constant_input" not in repeated(same, 0, high, end).faults()


class _SeenOnce(Rule):
    fault = "seen_once"
    category = "data"
    finds = "Something in the first step."
    evidence = ("the step",)
    every = 1

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if case.steps == 1:
            yield self.finding("seen", confidence=0.9, since_step=0, where=Where(), why="it was there")


class _Lasting(_SeenOnce):
    lasting = True


@pytest.mark.parametrize(("rule", "said"), [(_SeenOnce, []), (_Lasting, ["seen_once"])])
def test_what_a_rule_no_longer_says_is_withdrawn_unless_it_lasts(rule: type[Rule], said: list[str]) -> None:
    engine = Engine([rule()])
    for step in range(8):
        engine.step(StepRecord(step, 0.0, 1.0))
    engine.end(crashed=False)
    assert [finding.fault for finding in engine.findings] == said


def penalised(fit: list[float], penalty: list[float], chance: float = 1.0, *, shrinks: bool = False) -> list[str]:
    """A loss that is the sum of an mse_loss and of a penalty, step by step; under which weights may shrink."""
    run = Run()
    for own, other in zip(fit, penalty):
        for layer in run.layers:
            layer.weight *= 0.99 if shrinks else 1.0
        mse = Event("loss", values={"function": "mse_loss", "target_variance": chance, "value": own}, source=FIT)
        values = {"nll": own, "net.kl()": other, "line of nll": "30 nll = …", "line of net.kl()": "31 loss = …"}
        terms = Event("terms", part="net", values=values, source=Source("train.py", 31, "loss = nll + net.kl()"))
        begin, *rest = [event for event in run.events() if event.kind != "loss"]
        run.train(own + other, events=[begin, mse, terms, *rest])
    return run.faults()


FIT = Source("train.py", 30, "nll = F.mse_loss(net(x), y)")
FALLING = [9000.0 - 20.0 * at for at in range(200)]


def test_a_penalty_that_drowns_the_loss_is_named() -> None:
    assert penalised([1.1 - 0.0005 * at for at in range(200)], FALLING) == ["penalty_outweighs_loss"]


def test_a_large_penalty_beside_a_loss_that_is_learnt_has_no_finding() -> None:
    assert penalised([1.1 * 0.99**at for at in range(200)], FALLING) == []


def test_a_small_penalty_beside_a_loss_that_is_not_learnt_is_not_the_cause() -> None:
    assert "penalty_outweighs_loss" not in penalised([1.1] * 200, [0.1 - 0.0003 * at for at in range(200)])


@pytest.mark.parametrize(
    ("penalty", "shrinks", "faults"),
    [(30.0, True, ["penalty_outweighs_loss"]), (30.0, False, []), (5.0, True, [])],
    ids=["shrinks them", "leaves them", "is not so large"],
)
def test_a_penalty_that_is_seen_to_shrink_the_weights_need_not_be_so_large(
    penalty: float, shrinks: bool, faults: list[str]
) -> None:
    fit = [1.1 - 0.003 * at for at in range(200)]
    assert penalised(fit, [penalty * (1 - 0.003 * at) for at in range(200)], shrinks=shrinks) == faults


USED = [0.75 * 0.97**at for at in range(300)]


@pytest.mark.parametrize(
    ("fit", "penalty", "faults"),
    [
        ([0.099 - 0.00001 * min(at, 100) for at in range(300)], USED, ["penalty_outweighs_loss"]),
        ([0.099 * 0.995**at for at in range(300)], USED, []),  # it is learnt
        ([0.099] * 300, [0.2 * 0.97**at for at in range(300)], []),  # not so much larger
        ([0.099] * 300, [0.75 - 0.001 * at for at in range(300)], []),  # not brought down
    ],
    ids=["nothing else is learnt", "learnt", "no larger", "stays"],
)
def test_a_divergence_that_is_brought_to_nothing_beside_a_loss_that_stays_at_guessing_is_named(
    fit: list[float], penalty: list[float], faults: list[str]
) -> None:
    assert penalised(fit, penalty, chance=0.1) == faults
