"""Steps that are too large, too small, or none at all."""

from __future__ import annotations

import math
from collections.abc import Callable

from tensight.records import Event
from tests.diagnosis.builders import Run, nan


def test_updates_as_large_as_the_weights_and_a_loss_that_runs_away_mean_a_high_rate() -> None:
    run = Run(lr=3.0)
    for layer in run.layers:
        layer.update = 5.0
    run.train(10.0)
    run.train(1e4)
    run.train(1e11)
    for layer in run.layers:
        layer.output = layer.gradient = nan()
    for _ in range(8):
        run.train(math.nan)
    (finding,) = run.end()
    assert (finding.fault, finding.category, finding.since_step) == ("lr_too_high", "lr-schedule", 0)
    assert finding.where.op == "SGD.step"
    assert finding.where.line == 9
    assert finding.then


def test_a_bounded_loss_under_wild_updates_means_a_high_rate_too() -> None:
    run = Run(lr=1.0, optimizer="Adam")
    for layer in run.layers:
        layer.update = 0.6
    run.train(1.4)
    (finding,) = run.stall(50, loss=4.0).end()
    assert (finding.fault, finding.since_step) == ("lr_too_high", 0)


def _thrown_away(run: Run, end: float, layers: int = 3) -> list[str]:
    """The first updates replace the weights, which stay large; the loss comes down to what guessing gives."""
    for layer in run.layers[-layers:]:
        layer.update = 3.0
    for at in range(60):
        for layer in run.layers[-layers:]:
            layer.weight = 0.2 if at == 0 else 1.2
        run.train(1.6 if at == 0 else end * (1 + 0.01 * math.sin(1.7 * at)))
    return run.faults()


def test_guessing_by_how_often_each_class_is_met_is_no_success() -> None:
    run = Run(lr=1.0, optimizer="Adam")
    assert run.loss_values is not None
    run.loss_values["target_entropy"] = 1.1
    assert _thrown_away(run, 1.12) == ["lr_too_high"]


def test_below_guessing_under_large_updates_is_fine() -> None:
    run = Run(lr=1.0, optimizer="Adam")
    assert run.loss_values is not None
    run.loss_values["target_entropy"] = 1.1
    assert _thrown_away(run, 0.6) == []


def test_a_single_layer_that_grows_out_of_little_is_fine() -> None:
    run = Run(lr=1.0, optimizer="Adam")
    assert run.loss_values is not None
    run.loss_values["target_entropy"] = 1.1
    assert _thrown_away(run, 1.12, layers=1) == []


def test_batches_of_few_classes_do_not_tell_how_often_a_class_is_met() -> None:
    run = Run(lr=1.0, optimizer="Adam")
    assert run.loss_values is not None
    run.loss_values["target_entropy"] = 0.1
    assert "lr_too_high" not in _thrown_away(run, 0.6)


def test_a_high_rate_that_has_killed_a_relu_says_so() -> None:
    run = Run(lr=0.3, optimizer="Adam")
    run.layers[0].activation = "relu"
    for layer in run.layers:
        layer.update = 2.0
    run.train(0.2)
    run.layers[0].active = run.layers[0].gradient = 0.0
    (finding,) = run.stall(40, loss=9e5).end()
    assert (finding.fault, finding.since_step) == ("lr_too_high", 0)
    assert "ReLU units" in finding.why
    assert "dead since step 1" in finding.why


def test_large_updates_under_a_falling_loss_are_fine() -> None:
    run = Run(lr=1.0, optimizer="Adam")
    for layer in run.layers:
        layer.update = 0.6
    assert run.learn(50).faults() == []


def test_updates_too_small_to_matter_mean_a_low_rate() -> None:
    run = Run(lr=1e-7)
    for layer in run.layers:
        layer.update = 1e-9
    (finding,) = run.stall(60, loss=1.64).end()
    assert (finding.fault, finding.since_step) == ("lr_too_low", 0)
    assert finding.where.line == 9


def test_steps_that_were_only_watched_for_their_loss_change_no_conclusion() -> None:
    run = Run(lr=1e-7)
    for layer in run.layers:
        layer.update = 1e-9
    for at in range(90):
        run.train(1.64, depth=2 if at < 10 or at % 20 == 0 else 0)
    assert run.faults() == ["lr_too_low"]


def _warmed(rate: Callable[[int], float], update: Callable[[int], float]) -> Run:
    """Two hundred updates under a schedule that steps with each, of which few are watched."""
    run = Run()
    for at in (*range(18), *range(20, 190, 10), *range(190, 200)):
        run.step, run.lr = at, rate(at)
        for layer in run.layers:
            layer.update = update(at)
        stepped = Event("scheduler_step", part="LambdaLR", values={"lr": rate(at), "count": at + 1})
        run.train(1.64 * (1 + 0.01 * math.sin(1.7 * at)), events=[*run.events(), stepped])
    return run


def test_a_warm_up_that_never_gets_anywhere_is_named_in_a_training_that_is_watched_in_few_steps() -> None:
    (finding,) = _warmed(lambda at: 1e-9 * (at + 1), lambda at: 1e-8 * (at + 1)).end()
    assert (finding.fault, finding.since_step) == ("lr_too_low", 0)
    assert "in the whole run" in finding.title


def test_a_warm_up_that_moves_the_weights_by_the_end_has_no_finding() -> None:
    assert _warmed(lambda at: 1e-5 * (at + 1), lambda at: 1e-5 * (at + 1)).faults() == []


def test_a_loss_that_ends_higher_by_no_more_than_its_noise_has_learnt_nothing() -> None:
    run = Run(lr=1e-7)
    for layer in run.layers:
        layer.update = 1e-9
    for at in range(60):
        run.train((1.64 if at < 30 else 1.85) * (1 + 0.2 * math.sin(1.7 * at)))
    assert run.faults() == ["lr_too_low"]


def test_a_noisy_loss_that_falls_as_far_is_fine_under_small_updates() -> None:
    run = Run(lr=1e-7)
    for layer in run.layers:
        layer.update = 1e-9
    for at in range(60):
        run.train((1.75 if at < 30 else 1.5) * (1 + 0.2 * math.sin(1.7 * at)))
    assert run.faults() == []


def test_small_updates_are_fine_while_the_loss_falls() -> None:
    run = Run(lr=1e-7)
    for layer in run.layers:
        layer.update = 1e-9
    assert run.learn(60).faults() == []


def test_a_rate_of_zero_from_the_start_is_named() -> None:
    run = Run(lr=0.0)
    for layer in run.layers:
        layer.update = 0.0
    (finding,) = run.stall(40).end()
    assert (finding.fault, finding.since_step) == ("lr_is_zero", 0)


def test_a_rate_that_reaches_zero_halfway_is_named_since_then() -> None:
    run = Run()
    run.learn(30)
    run.lr = 0.0
    (finding,) = run.stall(40, loss=0.4).end()
    assert (finding.fault, finding.since_step) == ("lr_is_zero", 30)


def _slept(cut_at: int) -> Run:
    """Two hundred steps of which few are watched: the first eighteen, two in the middle and the last ten."""
    run = Run()
    for at in (*range(18), 75, 76, *range(190, 200)):
        run.step = at
        run.lr = 0.01 * (0.9**at if cut_at == 0 else 1e-4 if at >= cut_at else 1)
        run.train(1.4 - min(at, 8) / 100)
    return run


def test_a_schedule_stepped_too_often_is_named_in_a_training_that_is_watched_in_few_steps() -> None:
    (finding,) = _slept(cut_at=0).end()
    assert (finding.fault, finding.since_step) == ("lr_decays_too_fast", 66)


def test_a_rate_that_falls_in_the_last_of_few_watched_steps_has_no_finding() -> None:
    assert "lr_decays_too_fast" not in _slept(cut_at=190).faults()


def test_a_schedule_stepped_too_often_is_named() -> None:
    run = Run()
    for at in range(100):
        run.lr = max(0.1 * 0.5**at, 1e-12)
        run.train(1.4 - min(at, 8) / 100)
    (finding,) = run.end()
    assert finding.fault == "lr_decays_too_fast"
    assert finding.since_step == 10


def test_a_cosine_schedule_is_not_too_fast() -> None:
    run = Run()
    for at in range(100):
        run.lr = 0.1 * 0.5 * (1 + math.cos(math.pi * at / 100))
        run.train(1.4 if at > 20 else 1.5)
    assert run.faults() == []
