"""Masks on a loss that keep what they should leave out."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import CLASS_LOSSES, LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import median, number, where
from tensight.records import Event, Finding

STEPS = 3
LEFT_OUT = 0.2  # of the targets, at least
KINDS = 3  # of them
LEARNT = 0.1  # of guessing: one answer for all is soon known


class LossMaskInverted(Rule):
    """A mask after which the loss is about one class alone, which is what it was to leave out."""

    fault = "loss_mask_inverted"
    category = "loss-definition"
    finds = "A mask on the terms of a loss that keeps one class only (the padding) and leaves all others out."
    evidence = ("gradient of each term of a loss with reduction='none'", "the classes of those that count")
    explains = frozenset({"padding_not_ignored", "constant_labels", "labels_shuffled_against_inputs"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        sites = [site for site in case.losses if site.function in CLASS_LOSSES]
        told = case.noted.of("terms_counted")
        if len(sites) != 1 or len({step for step, _ in told}) < STEPS:
            return  # several losses may share the classes between them
        only = {event.values.get("only") if self._one_kind(event) else None for _, event in told}
        chance = sites[0].chance()
        latest = [value for _, value in case.loss.points[-10:]]
        if len(only) != 1 or None in only or chance is None or median(latest) > LEARNT * chance:
            return
        yield self._say(case, sites[0], told)

    @staticmethod
    def _one_kind(event: Event) -> bool:
        counted, total = (float(str(event.values.get(name, 0))) for name in ("counted", "of"))
        kinds = event.values.get("kinds_left_out")
        return counted <= (1 - LEFT_OUT) * total and isinstance(kinds, int) and kinds >= KINDS

    def _say(self, case: Case, site: LossSite, told: list[tuple[int, Event]]) -> Finding:
        step, event = told[0]
        only, counted, total = (event.values.get(name) for name in ("only", "counted", "of"))
        kinds = event.values.get("kinds_left_out")
        return self.finding(
            f"the mask on the loss is inverted: only targets of class {only} count",
            confidence=0.9,
            since_step=step,
            where=where(site.source, op=site.function),
            why=f"of {total} targets {counted} have a gradient, and all of them are class {only} (padding, or what is"
            f" to be ignored); the other {kinds} classes are multiplied with 0 and left out of the loss. The mask is"
            f" the opposite of what is meant: one answer is always right, the loss has fallen to"
            f" {number(case.loss.last)},"
            " and what the network is for is not learnt",
            facts=[
                ("targets that count", counted if isinstance(counted, int) else None),
                ("of so many", total if isinstance(total, int) else None),
                ("class of all that count", only if isinstance(only, int) else None),
                ("classes among the others", kinds if isinstance(kinds, int) else None),
            ],
            fix=("turn the mask round: mask = target != padding; or give ignore_index to the loss",),
            confirm=("print(target[mask.bool()].unique())",),
        )
