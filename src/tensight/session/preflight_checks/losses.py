"""The loss in the first steps."""

from __future__ import annotations

import math

from tensight.diagnosis.losses import BINARY_LOSSES, CLASS_LOSSES
from tensight.diagnosis.words import number, plural
from tensight.session.preflight_checks.look import Answer, Look

FAR = 3.0  # times the loss of guessing
FARTHER = 10.0
NEAR = 0.5


def losses_are_finite(look: Look) -> Answer:
    """Every loss that backward was called on is a number."""
    losses = [(step.step, step.loss) for step in look.steps if step.loss is not None]
    if not losses:
        return Answer("unknown", "backward was not called on a loss", "give more steps, or look at the loop")
    for step, value in losses:  # the mean over micro-steps is finite only if all are
        if not math.isfinite(value):
            return Answer("bad", f"the loss is {value} in step {step}", "see the findings below")
    return Answer(
        "ok", f"{number(losses[0][1])} at first, {number(losses[-1][1])} after {plural(look.updated, 'step')}"
    )


def loss_at_the_start(look: Look) -> Answer:
    """The first loss against that of guessing: ln C of a classification, the variance of a regression's targets."""
    losses = look.case.losses
    site = losses.main()
    chance = losses.chance()
    values = site.first_values if site is not None else []
    if not values:  # not every framework tells the value of the function itself
        values = [(step.step, step.loss) for step in look.steps if step.loss is not None][:1]
    if site is None or chance is None or not values or site.first.get("reduction") not in (None, "", "mean"):
        return Answer("unknown", "there is no one loss of which the value of guessing is known")
    step, first = values[0]
    began = next((one.step for one in look.steps if one.losses), 0)  # forwards may come before the training
    if step > began or not math.isfinite(first):
        return Answer("unknown", "the loss of the first step is not known")
    if site.function in CLASS_LOSSES:
        guess = f"guessing among {site.classes} classes gives ln {site.classes} = {number(chance)}"
    elif site.function in BINARY_LOSSES:
        guess = f"guessing gives ln 2 = {number(chance)}"
    else:
        guess = f"guessing the mean gives the variance of the targets, {number(chance)}"
    said = f"{number(first)}; {guess}"
    if chance <= 0 or first <= 0:
        return Answer("unknown", said)
    regression = site.function not in CLASS_LOSSES | BINARY_LOSSES
    if first > FARTHER * chance and not regression:
        return Answer("bad", said, "the outputs are far too large at the start: look at initialisation and inputs")
    if first > FAR * chance:
        return Answer("look", said, "the outputs are large at the start: look at initialisation, inputs and targets")
    if first < NEAR * chance and not regression:
        return Answer("look", said, "fine for a trained network; otherwise the answer may be among the inputs")
    return Answer("ok", said)
