"""Gradients that still hold the scale of the loss when they are used."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.nonfinite import NONFINITE
from tensight.diagnosis.rules.scaled_updates import past_the_scaler
from tensight.diagnosis.words import at, number, plural, where
from tensight.records import Finding

UPDATES = 2  # in each of them every gradient is the same bit by bit: that is no chance


class GradientsNotUnscaled(Rule):
    """An optimizer that is given the gradients of a scaled loss as they are."""

    fault = "gradients_not_unscaled"
    category = "precision"
    finds = "Gradients of a loss that a scaler has multiplied, used by the optimizer without being divided again."
    evidence = (
        "gradients as they were taken, and as the optimizer is given them",
        "order of backward, unscale and step",
        "loss scale",
        "gradients of a bias and of its output",
        "course of the loss",
    )
    explains = NONFINITE | {
        "lr_too_high",
        "exploding_gradient",
        "exploding_activation",
        "loss_scale_keeps_falling",
        "dead_relu",
        "labels_shuffled_against_inputs",
        "weight_decay_too_large",
    }
    every = 5
    urgent = True

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        yield from past_the_scaler(self, case)
        yield from self._given_as_taken(case)

    def _given_as_taken(self, case: Case) -> Iterable[Finding]:
        told = case.noted.of("still_scaled")
        if len(told) < UPDATES:
            return []
        step, event = told[0]
        part = case.parts.get(("optimizer", event.part))
        if part is None or part.settings.get("beta2") is not None:
            return []  # one that divides by the size of gradients takes the scale out by itself
        scale = event.values.get("scale")
        factor = number(scale if isinstance(scale, (int, float)) else None)
        return [
            self.finding(
                "gradients still hold the loss scale when they are used",
                confidence=0.95,
                since_step=step,
                where=where(event.source, op=f"{part.type}.step"),
                why=f"a scaler multiplies the loss by {factor}, and {part.type}{at(event.source)} is given the"
                f" gradients as they were taken, bit by bit, in each of {plural(len(told), 'observed update')}: they"
                f" were never unscaled, so every update is {factor} times as large as the learning rate says",
                facts=[("loss scale", scale), ("updates with scaled gradients", len(told))],
                fix=("divide them before the update: grads = scaler.unscale(grads)",),
                confirm=("print the norm of the gradients with a scale of 1: it is that many times smaller",),
            )
        ]
