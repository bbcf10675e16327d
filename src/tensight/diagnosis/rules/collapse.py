"""Targets that are trained together with what is to reach them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import number, where
from tensight.records import Finding, Source
from tensight.records.event import Value

CALLS = 8
UPDATES = 50
SPREAD = 0.1  # of the spread over a batch that the targets had at first
ALIKE = 0.97  # mean cosine of both
LATEST = 3  # looks
REACHED = 0.05  # of the first loss


class TargetsCollapse(Rule):
    """A loss with trained sides only, which are made equal by making them constant."""

    fault = "representation_collapse"
    category = "graph-wiring"
    finds = "A loss whose targets carry gradients too: both sides move until every sample gets the same answer."
    evidence = ("whether targets need gradients", "spread of targets over the samples of a batch", "course of the loss")
    explains = frozenset({"vanishing_gradient", "dead_relu", "lr_too_low"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        sites = [site for site in case.losses if site.calls >= CALLS and site.first.get("grad", True)]
        if case.updates < UPDATES:
            return
        if not sites or all(site.function == "expression" for site in sites):
            yield from self._agreeing(case)
            return
        latest = max(site.first_step for site in sites)
        sites = [site for site in sites if site.last_step >= latest]  # those of an earlier stage are over
        # A loss with targets from the data, beside this one, holds the answers in place.
        if not all(site.first.get("target_learnt") and site.latest.get("target_learnt") for site in sites):
            return
        fallen = [site for site in sites if self._collapsed(site)]
        if len(fallen) == len(sites):
            site = fallen[0]
            first, now = (_spread(values) for values in (site.first, site.latest))
            yield self._say(case, site.first_step, site.source, site.function, first, now)

    def _agreeing(self, case: Case) -> Iterable[Finding]:
        """Two trained answers that a cosine compares, with no other loss that keeps samples apart."""
        told = case.noted.of("agreeing")
        if not told or not all(event.values.get("both") for _, event in told):
            return
        spread, alike = (
            [float(value) for _, event in told if isinstance(value := event.values.get(name), float)]
            for name in ("spread", "alike")
        )
        latest = spread[-LATEST:]
        if len(spread) < CALLS or max(latest) > SPREAD * spread[0] or min(alike[-LATEST:]) < ALIKE:
            return
        step, event = told[0]
        yield self._say(case, step, event.source, "cosine_similarity", spread[0], spread[-1])

    @staticmethod
    def _collapsed(site: LossSite) -> bool:
        pairs = [(site.first.get(name), site.latest.get(name)) for name in ("target_spread", "value")]
        limits = (SPREAD, REACHED)
        return all(
            isinstance(first, (int, float)) and isinstance(now, (int, float)) and 0 <= now < limit * first
            for (first, now), limit in zip(pairs, limits)
        )

    def _say(
        self, case: Case, step: int, source: Source | None, function: str, first: float | None, now: float | None
    ) -> Finding:
        return self.finding(
            "the targets of the loss are trained too, and collapse to one answer",
            confidence=0.87,
            since_step=step,
            where=where(source, op=function),
            why=f"the target of {function} carries gradients: it comes from a network that is trained by the same"
            f" loss, and no target of the data holds it in place. The spread of the targets over the samples of a batch"
            f" fell from {number(first)} to {number(now)} while the loss fell to {number(case.loss.last)}: both sides"
            " collapse to the same constant output for every sample, which is the easiest way to agree",
            facts=[
                ("spread of targets over a batch at first", first),
                ("spread now", now),
                ("updates", case.updates),
            ],
            fix=(
                "stop the gradient through the target: target.detach(), or compute it under torch.no_grad()",
                "and keep a teacher or target network out of the optimizer",
            ),
            confirm=("print(output.std(dim=0)): it goes to 0 while the loss falls",),
        )


def _spread(values: Mapping[str, Value]) -> float | None:
    found = values.get("target_spread")
    return float(found) if isinstance(found, (int, float)) else None
