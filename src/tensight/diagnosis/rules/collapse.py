"""Targets that are trained together with what is to reach them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import number, where
from tensight.records import Finding
from tensight.records.event import Value

CALLS = 8
UPDATES = 50
SPREAD = 0.1  # of the spread over a batch that the targets had at first
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
        if case.updates < UPDATES or not sites:
            return
        latest = max(site.first_step for site in sites)
        sites = [site for site in sites if site.last_step >= latest]  # those of an earlier stage are over
        # A loss with targets from the data, beside this one, holds the answers in place.
        if not all(site.first.get("target_learnt") and site.latest.get("target_learnt") for site in sites):
            return
        fallen = [site for site in sites if self._collapsed(site)]
        if len(fallen) == len(sites):
            yield self._say(case, fallen[0])

    @staticmethod
    def _collapsed(site: LossSite) -> bool:
        pairs = [(site.first.get(name), site.latest.get(name)) for name in ("target_spread", "value")]
        limits = (SPREAD, REACHED)
        return all(
            isinstance(first, (int, float)) and isinstance(now, (int, float)) and 0 <= now < limit * first
            for (first, now), limit in zip(pairs, limits)
        )

    def _say(self, case: Case, site: LossSite) -> Finding:
        first, now = (_spread(values) for values in (site.first, site.latest))
        return self.finding(
            "the targets of the loss are trained too, and collapse to one answer",
            confidence=0.87,
            since_step=site.first_step,
            where=where(site.source, op=site.function),
            why=f"the target of {site.function} carries gradients: it comes from a network that is trained by the same"
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
