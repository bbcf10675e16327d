"""Gradients and updates that are not what the user meant."""

from __future__ import annotations

import math

import pytest

from tensight.records import Event, Source
from tests.diagnosis.builders import BACKWARD_LINE, LOSS_LINE, STEP_LINE, Layer, Run


def test_gradients_that_are_never_cleared_are_named_from_the_second_step_on() -> None:
    run = Run()
    for at in range(20):
        run.train(1.0, events=run.events(zero=False, cleared=at == 0))
    (finding,) = run.end()
    assert (finding.fault, finding.since_step) == ("missing_zero_grad", 1)
    assert (finding.where.op, finding.where.line) == ("backward", 22)
    assert "zero_grad is never called" in finding.why


def test_gradients_that_pile_up_stay_a_finding_when_steps_are_no_longer_looked_at() -> None:
    run = Run()
    for at in range(80):
        events = run.events(zero=False, cleared=at == 0)
        if at >= 12:  # hardly watched: only that there was a backward pass
            events = [event for event in events if event.kind != "backward"]
            events.insert(-1, Event("backward", part="net", source=BACKWARD_LINE))
        run.train(1.0, events=events)
    assert run.faults() == ["missing_zero_grad"]


def test_gradients_cleared_by_hand_have_no_finding() -> None:
    run = Run()
    for at in range(20):
        run.train(1.4 - at / 40, events=run.events(zero=False, cleared=True))
    assert run.faults() == []


def _by_hand(cleared: bool, moved: bool = True) -> Run:
    run = Run(lr=None, optimizer="")
    for at in range(20):
        for layer in run.layers:
            layer.update = 1e-3 if at and moved else 0.0
        run.train(1.4 - at / 40, events=run.events(cleared=cleared or at == 0))
    return run


def test_an_update_by_hand_that_clears_nothing_is_named_from_the_second_step_on() -> None:
    (finding,) = _by_hand(cleared=False).end()
    assert (finding.fault, finding.since_step) == ("missing_zero_grad", 1)
    assert (finding.where.op, finding.where.line) == ("backward", 22)


def test_an_update_by_hand_that_clears_its_gradients_has_no_finding() -> None:
    assert _by_hand(cleared=True).faults() == []


def test_gradients_that_add_up_while_weights_stand_still_have_no_finding() -> None:
    assert "missing_zero_grad" not in _by_hand(cleared=False, moved=False).faults()


def test_frameworks_that_do_not_say_whether_gradients_were_cleared_have_no_finding() -> None:
    run = Run()
    for at in range(20):
        events = [event for event in run.events(zero=False) if event.kind != "backward"]
        events.insert(-1, Event("backward", part="net", source=BACKWARD_LINE))
        run.train(1.4 - at / 40, events=events)
    assert run.faults() == []


def _accumulate(run: Run, loss: float, passes: int, share: float) -> None:
    assert run.loss_values is not None
    run.loss_values["value"] = loss
    first, loss_event, zero, backward, last = run.events()
    micro = [first, loss_event, Event("backward", part="net", values={"cleared": False}, source=backward.source)]
    run.train(loss * share, events=[zero, *micro * passes, last], losses=[loss * share] * passes)


def test_accumulation_of_whole_losses_that_diverges_is_named() -> None:
    run = Run()
    for layer in run.layers:
        layer.update = 2.0
    for loss in (11.0, 139.0, 1.6e7, 9e21, math.inf, math.nan, math.nan):
        _accumulate(run, loss, 16, 1.0)
    (finding,) = run.end()
    assert (finding.fault, finding.since_step) == ("gradient_accumulation_not_scaled", 0)
    assert finding.where.line == 22
    assert "16" in finding.why


def test_accumulation_of_divided_losses_that_diverges_is_the_learning_rates_fault() -> None:
    run = Run()
    for layer in run.layers:
        layer.update = 2.0
    for loss in (11.0, 1390.0, 1.6e7, 9e21, math.inf, math.nan, math.nan):
        _accumulate(run, loss, 16, 1 / 16)
    assert run.faults() == ["lr_too_high"]


def _accumulate_two_losses(run: Run, losses: tuple[float, float], passes: int, share: float, weight: float) -> None:
    first, loss_event, zero, backward, last = run.events()
    micro, given = [first], []
    for at in range(passes):
        pair = [value * (1 + at / 10 * sign) for value, sign in zip(losses, (1, -1))]
        for function, line, value in zip(("cross_entropy", "mse_loss"), (11, 12), pair):
            values = {**loss_event.values, "function": function, "value": value}
            micro.append(Event("loss", part="loss", values=values, source=Source("train.py", line)))
        micro.append(Event("backward", part="net", values={"cleared": False}, source=backward.source))
        given.append((pair[0] + weight * pair[1]) * share)
    run.train(given[-1], events=[zero, *micro, last], losses=given)


@pytest.mark.parametrize("weight", [1.0, 0.5])
@pytest.mark.parametrize(
    ("share", "fault"), [(1.0, "gradient_accumulation_not_scaled"), (1 / 4, "lr_too_high")], ids=["whole", "divided"]
)
def test_the_whole_loss_may_be_the_sum_of_several(share: float, fault: str, weight: float) -> None:
    run = Run()
    for layer in run.layers:
        layer.update = 2.0
    for loss in (1.1, 139.0, 1.6e7, 9e21, math.inf, math.nan, math.nan):
        _accumulate_two_losses(run, (loss, 5 * loss), 4, share, weight)
    assert run.faults() == [fault]


def test_backward_passes_that_are_thrown_away_are_counted() -> None:
    run = Run()
    for _ in range(3):
        zero = Event("zero_grad", part="SGD")
        backward = Event("backward", part="net", values={"cleared": True}, source=BACKWARD_LINE)
        step = Event("optimizer_step", part="SGD", values={"lr": 0.1}, source=STEP_LINE)
        run.train(1.4, events=[*[zero, backward] * 30, step], losses=[1.4] * 30)
    (finding,) = run.end()
    assert (finding.fault, finding.since_step, finding.where.line) == ("too_few_optimizer_steps", 0, 23)
    assert "87 of 90" in finding.why


def test_an_optimizer_that_holds_what_the_model_has_lost_is_stale() -> None:
    layers = [Layer("features"), Layer("head")]
    layers[1].held = False
    layers[1].update = 0.0
    (finding,) = Run(layers, unknown=2).stall(20).end()
    assert (finding.fault, finding.where.module) == ("optimizer_holds_stale_parameters", "head")
    assert "does not hold" in finding.why


def test_a_decay_that_eats_the_weights_is_named() -> None:
    run = Run(lr=0.1, settings={"weight_decay": 1.0})
    for _ in range(60):
        for layer in run.layers:
            layer.weight *= 0.9
            layer.update = 0.1
        run.train(1.4)
    (finding,) = run.end()
    assert finding.fault == "weight_decay_too_large"


def _held_against_decay(end: float) -> Run:
    """A tenth of every weight is taken off in each update, and gradients hold them at a half of their first size."""
    run = Run(lr=0.005, optimizer="AdamW", settings={"weight_decay": 20.0})
    for at in range(80):
        for layer in run.layers:
            layer.weight = max(0.1, 0.2 * 0.9**at)
            layer.update = 0.1
        run.train(1.4 - (1.4 - end) * min(1.0, at / 40))
    return run


def test_a_decay_that_weights_are_only_just_held_against_is_named_where_little_is_learnt() -> None:
    (finding,) = _held_against_decay(1.15).end()
    assert finding.fault == "weight_decay_too_large"
    assert "fallen by only 16%" in finding.why


def test_the_same_decay_has_no_finding_where_the_loss_falls() -> None:
    assert "weight_decay_too_large" not in _held_against_decay(0.4).faults()


def _eaten(least: float, end: float, within: int) -> list[str]:
    """Adam takes all layers but the last to nothing, the last to `least`, while the loss falls to `end` at first."""
    run = Run(lr=0.003, optimizer="Adam", settings={"weight_decay": 0.3})
    for at in range(120):
        for layer in run.layers:
            layer.weight = max(least if layer is run.layers[-1] else 1e-4, 0.2 * 0.9**at)
            layer.update = 0.1
        run.train(1.4 - (1.4 - end) * min(1.0, at / within))
    return run.faults()


def test_a_decay_that_leaves_only_the_mean_answer_is_named_though_the_loss_fell_to_it() -> None:
    assert _eaten(1e-4, 0.9, within=14) == ["weight_decay_too_large"]


def test_weights_that_shrink_have_no_finding_where_the_loss_fell_far_or_the_last_layer_holds_on() -> None:
    assert "weight_decay_too_large" not in _eaten(1e-4, 0.1, within=40)
    assert "weight_decay_too_large" not in _eaten(0.1, 0.9, within=14)


def test_a_usual_decay_has_no_finding() -> None:
    run = Run(lr=0.1, settings={"weight_decay": 0.05})
    assert run.learn(60).faults() == []


def test_two_losses_with_a_backward_each_are_no_accumulation() -> None:
    run = Run()
    for at in range(20):
        loss = 2.0 - at / 20
        first, loss_event, zero, backward, last = run.events()
        second = Event("backward", part="net", values={"cleared": False}, source=LOSS_LINE)
        run.train(loss, events=[first, loss_event, zero, backward, second, last], losses=[loss, loss])
    assert run.faults() == []
