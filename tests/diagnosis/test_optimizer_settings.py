"""Settings that undo an optimizer, parameters in two of them, clipping and clearing at the wrong moment."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tensight.records import Change, Event, Finding, Part, Source, Stats
from tests.diagnosis.builders import BACKWARD_LINE, STEP_LINE, Layer, Run, stats

CLIP_LINE = Source("train.py", 24, "nn.utils.clip_grad_norm_(net.parameters(), 1.0)")


def test_betas_in_the_wrong_order_are_named() -> None:
    run = Run(optimizer="Adam", settings={"betas": "0.999, 0.9"})
    (finding,) = run.learn(30).end()
    assert (finding.fault, finding.where.line) == ("betas_swapped", 9)


@pytest.mark.parametrize("betas", ["0.9, 0.999", "0.5, 0.999", "0, 0.9", "0.9, 0.95", "0.95, 0.95"])
def test_usual_betas_have_no_finding(betas: str) -> None:
    assert Run(optimizer="Adam", settings={"betas": betas}).learn(30).faults() == []


def test_an_eps_far_above_the_gradients_is_named() -> None:
    run = Run(optimizer="Adam", settings={"eps": 10.0})
    for layer in run.layers:
        layer.update = 1e-6
    assert run.stall(60).faults() == ["eps_too_large"]


def test_a_large_eps_in_a_training_that_learns_has_no_finding() -> None:
    assert Run(optimizer="RMSprop", settings={"eps": 1.0}).learn(60).faults() == []


def two(run: Run, *, backward_between: bool) -> list[str]:
    held = tuple(f"net:{layer.path}.weight" for layer in run.layers)
    run.engine.part(Part("optimizer", "Adam", "Adam", {"lr": 0.01}, Source("train.py", 10), held))
    for at in range(30):
        events = run.events()
        if backward_between:
            events.append(Event("backward", part="net", values={"cleared": True}, source=BACKWARD_LINE))
        events.append(Event("optimizer_step", part="Adam", values={"lr": 0.01}, source=STEP_LINE))
        run.train(1.4 - at / 40, events=events)
    return run.faults()


def test_two_optimizers_that_step_on_the_same_gradients_are_named() -> None:
    assert two(Run(), backward_between=False) == ["parameters_in_two_optimizers"]


def test_two_optimizers_with_a_backward_pass_each_have_no_finding() -> None:
    assert "parameters_in_two_optimizers" not in two(Run(), backward_between=True)


def test_gradients_that_are_cleared_before_the_step_are_named() -> None:
    run = Run()
    for layer in run.layers:
        layer.gradient, layer.update = None, 0.0
    for _ in range(20):
        forward, loss, zero, backward, step = run.events()
        zero = Event("zero_grad", part="SGD", source=Source("train.py", 21, "opt.zero_grad()"))
        run.train(1.4, events=[forward, loss, backward, zero, step])
    (finding,) = run.end()
    assert (finding.fault, finding.where.line) == ("gradients_cleared_before_step", 21)


def clipped(run: Run, norm: float, limit: float, end: float, *, late: bool = False) -> list[str]:
    for at in range(40):
        clip = Event("clip", part="SGD", values={"norm": norm, "max_norm": limit}, source=CLIP_LINE)
        *before, step = run.events()
        order = [*before, step, clip] if late else [*before, clip, step]
        run.train(1.4 + (end - 1.4) * at / 40 + 0.01 * math.sin(1.7 * at), events=order)
    return run.faults()


def test_a_limit_that_leaves_nothing_of_the_gradient_is_named() -> None:
    run = Run()
    for layer in run.layers:
        layer.update = 1e-7
    assert clipped(run, 2.0, 1e-5, 1.4) == ["clip_too_small"]


def test_clipping_in_a_training_that_learns_has_no_finding() -> None:
    assert clipped(Run(), 50.0, 0.01, 0.4) == []


def test_a_small_limit_does_not_matter_to_adam() -> None:
    assert clipped(Run(optimizer="Adam"), 2.0, 1e-5, 1.4) == []


def test_clipping_after_the_step_is_named() -> None:
    run = Run()
    assert clipped(run, 2.0, 1.0, 0.4, late=True) == ["clip_after_step"]
    assert run.engine.findings[0].where.line == 24


class Moving(Run):
    """Weights that an update enlarges; `back` is the share of it that is undone before the next one."""

    back = 0.0

    @staticmethod
    def _changed(layer: Layer) -> Stats:
        count = math.prod(layer.shape)
        moved = layer.update * layer.weight
        change = Change(count, moved, 2 * moved, layer.weight, count, 0)
        return stats(layer.weight + moved, count, change=change)

    def train(self, loss: float = 1.0, **more: Any) -> list[Finding]:
        found = super().train(loss, **more)
        for layer in self.layers:
            layer.weight *= 1 + (1 - self.back) * layer.update
        return found


def test_updates_that_are_undone_before_the_next_one_are_named() -> None:
    run = Moving()
    run.back = 0.999
    assert run.stall(40).faults() == ["weights_overwritten"]


@pytest.mark.parametrize("back", [0.0, 0.01], ids=["as they are", "a little weight decay by hand"])
def test_weights_that_stay_where_updates_put_them_have_no_finding(back: float) -> None:
    run = Moving()
    run.back = back
    assert run.stall(40).faults() == []


def test_momentum_that_forgets_nothing_is_named_and_what_it_does_is_folded() -> None:
    (finding,) = Run(settings={"momentum": 1.0}).stall(30).end()
    assert (finding.fault, finding.where.op) == ("momentum_too_large", "SGD.step")


def test_long_momentum_is_a_choice() -> None:
    assert Run(settings={"momentum": 0.99}).learn(30).faults() == []
