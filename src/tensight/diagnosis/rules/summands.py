"""Losses of several tasks that are added up, of which one leaves nothing to the others."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import CLASS_LOSSES, LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.weight_decay import shrunk_layer
from tensight.diagnosis.terms import Term
from tensight.diagnosis.words import median, number, plural, where
from tensight.records import Finding

TERMS = 64  # in a sum, at least
TIMES = 100.0  # that the sum is larger than the other loss at the start
CALLS = 12  # of each loss that were looked at
STEPS = 60  # after which a loss that is learnt at all has left its beginning
LEARNT = 0.5  # what is left of a loss that was learnt
STUCK = 0.97  # what is left of guessing where nothing was
LONG = 150  # steps after which a penalty that drowns the loss has shown it
NEAR = 0.7  # of guessing: what was learnt at first is being lost again, or never was much
LOOKS = 8  # at the terms of a loss
SHRINKING = 20.0  # times the loss, at every look, of a penalty that is seen to shrink most weights
SHRUNK = 0.3  # of their first size
ONLY = 0.85  # of guessing, all through the second half of a run: nothing but the penalty was learnt
USED_UP = 0.1  # what is left of a penalty that was brought down all the same
LARGER = 3.0  # times the loss, of such a penalty at the start
HARDLY = 0.4  # of guessing: beside such a penalty little is learnt


class SumOutweighs(Rule):
    """A loss summed over all its terms beside a mean, which then learns nothing."""

    fault = "summed_loss_outweighs"
    category = "loss-definition"
    finds = "Two losses added up, one a sum over many terms and one a mean: the mean is lost in it and is not learnt."
    evidence = ("reduction, size and course of each loss",)
    explains = frozenset({"sum_instead_of_mean"})
    every = 20

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        sites = [site for site in case.losses if site.calls >= CALLS and case.steps >= STEPS]
        for summed in sites:
            if summed.first.get("reduction") != "sum" or _terms(summed) < TERMS or not _falls(summed):
                continue
            for other in sites:
                if other.first.get("reduction") == "mean" and _outweighs(summed, other) and _at_chance(other):
                    yield self._say(summed, other)
                    return

    def _say(self, summed: LossSite, other: LossSite) -> Finding:
        terms = _terms(summed)
        first, beside = summed.number("value") or 0.0, other.number("value") or 0.0
        return self.finding(
            f"{summed.function} is a sum over {plural(terms, 'term')} and outweighs {other.function}",
            fault="sum_instead_of_mean",
            confidence=0.82,
            since_step=summed.first_step,
            where=where(summed.source, op=summed.function),
            why=f"{summed.function} adds up {terms} terms (reduction='sum') and begins at {number(first)},"
            f" {number(first / beside)} times the {other.function} it is added to, which is a mean. Its gradients"
            f" dominate those of the other loss: that one is still at {number(_latest(other))}, as good as"
            f" guessing, while this one has fallen to {number(_latest(summed))}",
            facts=[
                ("terms in the sum", terms),
                (f"first {summed.function}", first),
                (f"first {other.function}", beside),
                (f"latest {other.function}", _latest(other)),
            ],
            fix=("use reduction='mean', or divide the sum by the number of terms, and weigh the losses on purpose",),
            confirm=("print the norm of the gradients of each loss by itself",),
        )


class PenaltyOutweighs(Rule):
    """A penalty on the weights (a KL term, a norm) that is so much larger than the loss that only it is learnt."""

    fault = "penalty_outweighs_loss"
    category = "loss-definition"
    finds = "A penalty added to the loss that is a hundred times as large as it: the loss stays as good as guessing."
    evidence = ("values of the terms that the loss is added up from", "what guessing would cost", "size of weights")
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs", "sum_instead_of_mean"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if case.updates < LONG:
            return
        sites = {site.source: site for site in case.losses if site.source is not None}
        lines = {(source.file, source.line): site for source, site in sites.items()}
        for terms in case.terms.sums.values():
            for fit in terms.values():
                site = lines.get((fit.source.file, fit.source.line))
                late = [value for step, value in fit.values.points if 2 * step > case.last_step]
                guessing = site.chance() if site is not None else None
                if site is None or guessing is None or len(late) < 2 or fit.values.count < LOOKS:
                    continue
                if median(late) < HARDLY * guessing:
                    continue
                for other in terms.values():
                    if other is fit or (other.source.file, other.source.line) in lines:
                        continue
                    drowned = _drowns(other, fit) and median(late) >= NEAR * guessing
                    if drowned or (median(late) >= ONLY * guessing and _used_up(other, fit)):
                        yield self._say(other, fit, site)
                        return
                    shrunk = self._shrinks(case, other, fit)
                    if shrunk is not None:
                        yield self._say(other, fit, site, shrunk)
                        return

    @staticmethod
    def _shrinks(case: Case, penalty: Term, fit: Term) -> tuple[str, float, int] | None:
        """The layer that shrank the most, where a term far larger than the loss falls and most weights with it."""
        if not _drowns(penalty, fit, SHRINKING):
            return None
        found = [shrunk_layer(case, part, SHRUNK) for part in case.optimizers()]
        return found[0] if len(found) == 1 else None

    def _say(self, penalty: Term, fit: Term, site: LossSite, shrunk: tuple[str, float, int] | None = None) -> Finding:
        begin, now = penalty.values.first, penalty.values.last
        if shrunk is None:
            advice = (
                "A penalty over all weights, such as a KL term or a norm, must be scaled down: divided by the number of"
                " samples, or weighed with a small factor"
            )
        else:
            advice = (
                f"It pulls the weights to zero, as a weight decay that is too large does: {shrunk[0]} has"
                f" {number(shrunk[1] * 100)} % of its first size"
            )
        return self.finding(
            f"{penalty.name} outweighs {fit.name}, which is {'not' if shrunk is None else 'hardly'} learnt",
            confidence=0.85,
            since_step=penalty.values.first_step,
            where=where(penalty.source),
            why=f"the loss is a sum in which the term {penalty.name} is {number(begin)} at first and {number(now)} now,"
            f" {number(begin / abs(fit.values.first or 1e-30))} times as large as {fit.name} ({site.function}): its"
            f" gradients dominate, and {fit.name} is still at {number(fit.values.last)} where guessing costs"
            f" {number(site.chance() or 0.0)}. {advice}",
            facts=[
                (f"first {penalty.name}", begin),
                (f"latest {penalty.name}", now),
                (f"first {fit.name}", fit.values.first),
                (f"latest {fit.name}", fit.values.last),
            ],
            fix=(f"scale {penalty.name} down: divide it by the number of samples, or weigh it with a small factor",),
            confirm=("print the terms of the loss: the large one alone falls",),
        )


def _drowns(penalty: Term, fit: Term, times: float = TIMES) -> bool:
    """Whether one term was far larger at every look, and has fallen meanwhile."""
    own, other = dict(penalty.values.points), dict(fit.values.points)
    falls = 0 < penalty.values.last < 0.9 * penalty.values.first
    return falls and all(own[step] > times * abs(other[step]) for step in own.keys() & other.keys())


def _used_up(penalty: Term, fit: Term) -> bool:
    """Whether the penalty was the larger one and has been learnt, and the loss has not moved for long."""
    values = [value for _, value in fit.values.points]
    half, begin = values[len(values) // 2 :], penalty.values.first
    moved = abs(median(half[: len(half) // 2 + 1]) - median(half[len(half) // 2 :]))
    still = len(half) >= LOOKS and moved < 0.03 * abs(median(half))
    return still and begin > LARGER * abs(fit.values.first) and 0 <= penalty.values.last < USED_UP * begin


def _terms(site: LossSite) -> int:
    shape = site.shape_of("prediction_shape") or ()
    return site.batch if site.function in CLASS_LOSSES else math.prod(shape)


def _latest(site: LossSite) -> float:
    value = site.latest.get("value")
    return float(value) if isinstance(value, (int, float)) else math.nan


def _falls(site: LossSite) -> bool:
    first = site.number("value")
    return first is not None and _latest(site) < LEARNT * first


def _outweighs(summed: LossSite, other: LossSite) -> bool:
    first, beside = summed.number("value"), other.number("value")
    return first is not None and beside is not None and beside > 0 and first > TIMES * beside


def _at_chance(site: LossSite) -> bool:
    """Whether it is as at the beginning, where guessing begins."""
    chance, first = site.chance(), site.number("value")
    return chance is not None and first is not None and _latest(site) > STUCK * chance and first > STUCK * chance
