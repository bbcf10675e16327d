"""Penalties on slopes that are numbers for the loss they are added to."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, plural, where
from tensight.records import Finding

STEPS = 3  # in which it was seen


class PenaltyWithoutGradient(Rule):
    """A gradient penalty that was computed without create_graph, and so trains nothing."""

    fault = "penalty_without_gradient"
    category = "graph-wiring"
    finds = (
        "A gradient penalty made from torch.autograd.grad without create_graph=True: the loss grows, nothing learns."
    )
    evidence = ("slopes of inputs asked for without a graph", "a summand of the loss that has no graph")
    explains = frozenset({"lr_too_high", "exploding_gradient", "exploding_activation", "loss_unbounded_below"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        told = case.noted.of("number_in_loss")
        steps = {step for step, _ in told}
        if len(steps) < STEPS:
            return
        first, event = told[0]
        term = event.values.get("term")
        yield self.finding(
            f"{term} in the loss has no gradient: torch.autograd.grad was called without create_graph",
            confidence=0.9,
            since_step=first,
            where=where(event.source, op="autograd.grad", network=event.part),
            why=f"the loss is a sum in which {term} is a plain number: it was made from slopes that"
            f" torch.autograd.grad{at(event.source)} gave without create_graph=True, which are detached from the graph."
            f" So the penalty is added to the loss and gives no gradient to any weight ({plural(len(steps), 'step')}"
            " looked at): nothing holds the slopes where it should",
            facts=[("term", str(term)), ("steps in which it had no graph", len(steps))],
            fix=("torch.autograd.grad(…, create_graph=True)",),
            confirm=("print(penalty.requires_grad): it is False",),
        )
