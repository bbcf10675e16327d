"""Targets made from the network's own answers, through which gradients flow."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, plural, where
from tensight.records import Finding

CALLS = 5  # of a loss before one says that it is always so


class BootstrapTargetTrained(Rule):
    """A temporal-difference target that is not detached."""

    fault = "bootstrap_target_not_detached"
    category = "graph-wiring"
    finds = "A temporal-difference target (reward plus discounted value) that keeps its gradient and is trained too."
    evidence = ("how the target of a loss is made, read from its graph", "which parameters both sides depend on")
    explains = frozenset({"lr_too_low", "lr_too_high", "representation_collapse", "target_not_normalised"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for site in case.losses:
            if site.bootstrapped < CALLS or site.bootstrapped < 0.5 * site.calls:
                continue
            yield self.finding(
                "the bootstrap target of the loss keeps its gradient",
                confidence=0.86,
                since_step=site.first_step,
                where=where(site.source, op=site.function),
                why=f"in {plural(site.bootstrapped, 'call')} of the loss{at(site.source)} the target was data plus a"
                " discounted answer of the same network for another input, and it was not detached: gradients flow"
                " through the target as well, so each update also moves the value of the next state towards the"
                " prediction instead of the prediction towards the target",
                facts=[("losses looked at", site.calls), ("with a target that has a graph", site.bootstrapped)],
                fix=("compute the target under torch.no_grad(), or call .detach() on it",),
                confirm=("print(target.requires_grad): it is True",),
            )
