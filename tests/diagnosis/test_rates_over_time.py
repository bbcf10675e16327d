"""Learning rates that change over a run or come with a second optimizer, and gradients summed over ranks."""

from __future__ import annotations

import math

import pytest

from tensight.records import Event, Part, Source
from tests.diagnosis.builders import Layer, Run

SECOND_LINE = Source("train.py", 67, "opt = torch.optim.Adam(net.parameters(), lr=lr)")


def second_stage(rate: float, update: float) -> Run:
    run = Run(lr=0.01, optimizer="Adam")
    run.learn(60, 0.7, 0.1)
    held = tuple(f"net:{layer.path}.weight" for layer in run.layers)
    run.engine.part(Part("optimizer", "Adam-2", "Adam", {"lr": rate}, SECOND_LINE, held))
    run.optimizer, run.lr = "Adam-2", None
    run.scalars = {"lr/Adam-2": rate}
    for layer in run.layers:
        layer.update = update
    for at in range(80):
        run.train(3.0 + 0.01 * math.sin(at) if update < 1e-5 else 3.0 - 0.03 * at)
    return run


def test_an_optimizer_that_goes_on_with_a_rate_that_is_used_up_is_judged_by_its_own_steps() -> None:
    (finding,) = second_stage(1e-8, 1e-7).end()
    assert (finding.fault, finding.since_step, finding.where.line) == ("lr_too_low", 60, 67)


def test_a_second_stage_that_learns_is_left_alone() -> None:
    assert second_stage(5e-3, 1e-3).faults() == []


@pytest.mark.parametrize(("loss", "faults"), [(1.6, ["lr_too_low"]), (0.3, [])])
def test_updates_that_lead_nowhere_all_together_count_only_where_guessing_is_as_good(
    loss: float, faults: list[str]
) -> None:
    run = Run(lr=2e-6, optimizer="AdamW")
    for layer in run.layers:
        layer.update = 4e-5
    assert run.stall(120, loss).faults() == faults


def cut(falling: bool) -> Run:
    """A rate that a plateau cuts to a tenth every 16 steps."""
    run = Run(lr=0.01)
    assert run.loss_values is not None
    run.loss_values |= {"function": "mse_loss", "target_variance": 10.0}
    settings = {"mode": "max", "factor": 0.1, "patience": 1}
    run.engine.part(Part("scheduler", "ReduceLROnPlateau", "ReduceLROnPlateau", settings))
    watched = Event("scheduler_step", part="ReduceLROnPlateau", source=Source("train.py", 55, "plateau.step(score)"))
    for at in range(160):
        run.lr = 0.01 * 0.1 ** (at // 16)
        loss = 0.1 + (0.9 * (1 - at / 16) if falling and at < 16 else 0.0)
        run.train(loss, events=[*run.events(), watched])
    return run


def test_a_rate_that_is_cut_while_the_loss_still_falls_is_named() -> None:
    findings = cut(falling=True).end()
    assert [(finding.fault, finding.where.line) for finding in findings] == [("lr_decays_too_fast", 55)]
    assert 'mode="max"' in findings[0].why


def test_a_rate_that_is_cut_when_nothing_more_falls_is_left_alone() -> None:
    assert cut(falling=False).faults() == []


def upwards(mode: str, first: float, at_cut: float, last: float, at_lowest: int = 3) -> Run:
    """A loss that falls from 0.65 to 0.17, and a scheduler that was given these numbers and has cut the rate thrice."""
    run = Run(lr=0.05)
    settings = {"mode": mode, "factor": 0.3, "patience": 1, "readings": 8, "cuts": 3, "cuts_at_lowest": at_lowest}
    settings |= {"first_metric": first, "metric_at_cut": at_cut, "last_metric": last, "first_cut": 16, "last_cut": 48}
    for at in range(64):
        run.lr = 0.05 * 0.3 ** (at // 16)
        if at == 49:
            line = Source("train.py", 31, 'ReduceLROnPlateau(optimizer, mode="max")')
            run.engine.part(Part("scheduler", "ReduceLROnPlateau", "ReduceLROnPlateau", settings, line))
        run.train(0.17 + 0.48 * 0.95**at)
    return run


def test_a_plateau_that_is_looked_for_upwards_in_a_loss_is_named_long_before_the_rate_is_used_up() -> None:
    (finding,) = upwards("max", 0.6, 0.38, 0.21).end()
    assert (finding.fault, finding.since_step, finding.where.line) == ("lr_decays_too_fast", 16, 31)


@pytest.mark.parametrize(
    ("mode", "first", "at_cut", "last", "at_lowest"),
    [
        ("min", 0.6, 0.38, 0.21, 0),  # as it should be
        ("max", 0.9, 0.91, 0.93, 0),  # an accuracy that stands still
        ("max", 0.95, 0.93, 0.9, 3),  # and one that gets worse
    ],
)
def test_a_plateau_of_an_accuracy_is_left_alone(
    mode: str, first: float, at_cut: float, last: float, at_lowest: int
) -> None:
    assert upwards(mode, first, at_cut, last, at_lowest).faults() == []


def test_a_rate_that_peaks_so_high_that_the_weights_are_lost_is_named() -> None:
    layers = [Layer("fc1"), Layer("head")]
    run = Run(layers, lr=1e-3, optimizer="AdamW")
    for at in range(100):
        run.lr = 1.0 if at > 20 else 0.05 * at
        for layer in layers:
            layer.update = 1.5 if 5 < at < 30 else 0.02
            layer.weight = 0.2 if at < 5 else 4.0
        run.train(1.7 if at < 3 else 1.45)
    (finding,) = run.end()
    assert (finding.fault, finding.category) == ("lr_too_high", "lr-schedule")


def summed(*, value: float | None, ending: float, said: bool = True) -> Run:
    run = Run(lr=0.5)
    source = Source("train.py", 34, "dist.all_reduce(p.grad)")
    run.engine.part(Part("wrapper", "all_reduce", "all_reduce", {"ranks": 2, "summed": said}, source))
    for at in range(60):
        loss = 1.4 * (ending / 1.4) ** (at / 59)
        assert run.loss_values is not None
        run.loss_values |= {"value": loss if value is None else value * loss}
        for layer in run.layers:
            layer.update = 2.0 if ending > 100 else 1e-3
        run.train(loss)
    return run


def test_gradients_that_are_summed_over_ranks_are_the_cause_of_a_loss_that_runs_away() -> None:
    (finding,) = summed(value=None, ending=1e6).end()
    assert (finding.fault, finding.where.line, finding.where.op) == ("gradients_summed_over_ranks", 34, "all_reduce")


def test_sums_that_do_no_harm_are_averaged_or_begin_at_a_share_of_the_loss_are_not() -> None:
    assert summed(value=None, ending=0.1).faults() == []
    assert "gradients_summed_over_ranks" not in summed(value=None, ending=1e6, said=False).faults()
    assert "gradients_summed_over_ranks" not in summed(value=2.0, ending=1e6).faults()


def one_cycle(whole: int, every: int, steps: int = 120) -> Run:
    """A OneCycleLR of so many steps that is stepped behind every so many updates, some of which nobody saw."""
    run = Run(lr=0.01)
    line = Source("train.py", 40, "schedule.step()")
    run.engine.part(Part("scheduler", "OneCycleLR", "OneCycleLR", {"optimizer": "SGD", "total_steps": whole}))
    for at in range(1, steps + 1):
        told = Event("scheduler_step", part="OneCycleLR", values={"count": at // every}, source=line)
        run.train(1.4 - 0.001 * at, events=[*run.events(), *([told] if at % (every * 2) == 0 else [])])
    return run


def test_a_schedule_for_every_update_that_is_stepped_per_epoch_is_named() -> None:
    (finding,) = one_cycle(whole=120, every=30).end()
    assert (finding.fault, finding.where.line) == ("scheduler_stepped_per_epoch", 40)
    assert "4 times" in finding.why


@pytest.mark.parametrize(
    ("whole", "every"),
    [
        pytest.param(120, 1, id="stepped at every update, though half of that was seen"),
        pytest.param(4, 30, id="made for epochs"),
        pytest.param(1200, 30, id="a run that was cut short"),
    ],
)
def test_a_schedule_that_is_stepped_as_it_was_made_has_no_finding(whole: int, every: int) -> None:
    assert "scheduler_stepped_per_epoch" not in one_cycle(whole, every).faults()
