"""Gradients of one loss that end up in the update of another."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.order import OptimizerCalls
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, plural, some, where
from tensight.records import Finding

FEW = 4
MOSTLY = 0.8


class GradientsOfAnotherLoss(Rule):
    """An optimizer whose gradients are cleared too early: another loss fills them before its own does."""

    fault = "gradients_of_another_loss"
    category = "optimizer-update"
    finds = (
        "With several optimizers: gradients that one loss has left behind, of which another optimizer has made its"
        " update, are added to those of the next loss."
    )
    evidence = (
        "order of zero_grad, backward and step of each optimizer",
        "gradients that were there before a backward",
    )
    explains = frozenset({"lr_too_high", "exploding_gradient", "lr_too_low"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for calls in case.order.optimizers.values():
            if calls.leaked >= FEW and calls.leaked >= MOSTLY * (calls.leaked + calls.unmixed):
                yield self._say(case, calls)

    def _say(self, case: Case, calls: OptimizerCalls) -> Finding:
        part = case.parts.get(("optimizer", calls.name))
        kind = part.type if part is not None else calls.name
        networks = sorted(case.order.networks_of.get(calls.name) or ())
        of = f"{kind} (of {some(networks)})" if networks else kind
        source = calls.backward_source or calls.step_source
        return self.finding(
            f"gradients of another loss are left in the updates of {of}",
            confidence=0.9,
            since_step=max(0, calls.first_leak),
            where=where(source, op="zero_grad", network=networks[0] if networks else None),
            why=f"the backward pass{at(calls.leaked_from)}, with which another optimizer steps, fills the gradients of"
            f" {some(networks) if networks else kind} too, and zero_grad does not clear them before its own backward"
            f" pass{at(source)}: {plural(calls.leaked, 'update')} used the sum of both losses, first in step"
            f" {calls.first_leak}. zero_grad{at(calls.zero_source)} comes too early",
            facts=[
                ("updates on gradients of two losses", calls.leaked),
                ("first of them", calls.first_leak),
                ("calls of zero_grad", calls.zeroed),
            ],
            fix=(f"clear the gradients of {of} right before its own backward pass{at(source)}",),
            confirm=("print a gradient's norm right before that backward pass: it must be 0 or None",),
        )
