"""A loss, or a term of it, with the wrong sign."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import CLASS_LOSSES, REGRESSION_LOSSES, LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.nonfinite import NONFINITE
from tensight.diagnosis.words import at, median, number, where
from tensight.records import Finding

# what may stand between the loss and log_softmax without changing the sign
_KEEPS_SIGN = frozenset({"mean", "sum", "gather", "index", "squeeze", "view", "unsqueeze", "select", "reshape", "div"})

FAR = 1e3  # times the size of the first loss, below zero
FASTER = 1.5  # times as far in a quarter of the run as in the one before: nothing that settles does that
DEEP = 20  # times the size of the first loss, where it falls faster and faster


class LossSignFlipped(Rule):
    """A log-likelihood or a negated distance that is minimised."""

    fault = "loss_sign_flipped"
    category = "loss-definition"
    finds = "A loss with the wrong sign: the log-likelihood itself is minimised, or a negated loss function."
    evidence = (
        "operators between the loss and log_softmax",
        "value of the loss function against what backward was given",
    )
    explains = frozenset({"lr_too_high", "exploding_gradient", "nll_on_probabilities", "nll_on_logits"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if case.order.updates < 10 or len(case.order.optimizers) > 1:
            return  # two sides of a game
        for site in case.losses:
            how = self._likelihood(site) or self._negated(case, site)
            if how and case.loss.last < case.loss.first < 0 and case.loss.last < 1.5 * case.loss.first:
                yield self.finding(
                    "the loss has the wrong sign",
                    confidence=0.88,
                    since_step=site.first_step,
                    where=where(site.source, op=site.function if site.function != "expression" else None),
                    why=f"{how}: minimising it makes the answers worse. The loss is negative, went from"
                    f" {number(case.loss.first)} to {number(case.loss.last)}, and has no floor (the sign is flipped:"
                    f" the"
                    " negative is missing, or is one too many)",
                    facts=[("first loss", case.loss.first), ("loss now", case.loss.last)],
                    fix=("turn the sign: loss = -log_likelihood.mean(), or drop the minus before the loss function",),
                )
                return

    @staticmethod
    def _likelihood(site: LossSite) -> str:
        operators = site.first.get("operators")
        if site.function != "expression" or not isinstance(operators, str):
            return ""
        names = [name.strip() for name in operators.split(",")]
        at = next(
            (place for place, name in enumerate(names) if name in ("log_softmax", "logsigmoid", "log_sigmoid")), -1
        )
        if at > 0 and set(names[:at]) <= _KEEPS_SIGN:
            return "the mean log-probability of the right answers is minimised, and is to be maximised"
        return ""

    @staticmethod
    def _negated(case: Case, site: LossSite) -> str:
        """backward was given the negative of what the loss function returned."""
        if site.function not in CLASS_LOSSES | REGRESSION_LOSSES or not case.first_losses or len(case.losses.sites) > 1:
            return ""
        made = dict(site.first_values)
        ratios = [given[0] / made[step] for step, given in case.first_losses if made.get(step) and len(given) == 1]
        if len(ratios) >= 2 and math.isclose(median(ratios), -1.0, rel_tol=1e-3):
            return f"backward is called on the negative of {site.function}"
        return ""


def _value(site: LossSite) -> float | None:
    """What a loss function returned last."""
    value = site.latest.get("value")
    return float(value) if isinstance(value, (int, float)) else None


def _runs_away(values: list[float]) -> bool:
    """Whether each of the last three quarters of a course fell clearly further than the one before it.

    >>> _runs_away([-1.1**k for k in range(80)]), _runs_away([-float(k) for k in range(80)])
    (True, False)
    """
    quarter = len(values) // 4
    marks = [median(values[max(0, place - 3) : place + 1]) for place in range(quarter - 1, 4 * quarter, quarter)]
    falls = [before - after for before, after in itertools.pairwise(marks)]
    return falls[0] > 0 and all(later > FASTER * earlier for earlier, later in itertools.pairwise(falls))


class LossUnboundedBelow(Rule):
    """A loss that falls through zero and on without end."""

    fault = "loss_unbounded_below"
    category = "loss-definition"
    finds = "A loss that falls thousands of times below zero and on: a term of it has the wrong sign and no floor."
    evidence = ("course of the loss", "values of the loss functions in it")
    explains = frozenset({"exploding_activation", "exploding_gradient", "lr_too_high"}) | NONFINITE
    every = 10
    lasting = True  # in the end it may have come to the limit of its numbers

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        first, points = case.loss.first, case.loss.points
        if case.order.updates < 20 or len(case.order.optimizers) > 1 or not math.isfinite(first):
            return  # two sides of a game
        size = max(1.0, abs(first))
        finite = [(step, value) for step, value in points if math.isfinite(value)]
        if len(finite) < 20:
            return
        last = finite[-1][1]
        far = last < -FAR * size and last <= 2 * finite[len(finite) * 3 // 4][1]
        if not far and not (last < -DEEP * size and _runs_away([value for _, value in finite])):
            return  # not that far, or it has slowed down
        since = next(step for step, value in finite if value < min(0.0, first))
        line = max(case.order.lines.values(), key=lambda one: one.passes, default=None)
        main = case.losses.main()
        if main is not None and main.function == "expression" and main.source is not None:
            place = where(main.source, op=None)  # where it is written, not where it is used
        else:
            place = where(line.source if line is not None else None, op="backward")
        kept = [site for site in case.losses if site.function != "expression" and (_value(site) or -1.0) >= 0]
        term = next((one for one in case.terms.lowest(-size) if one.values.last < one.values.first), None)
        runs = f": {term.name} alone is {number(term.values.last)}" if term is not None else ""
        parts = "".join(f"; {site.function}{at(site.source)} alone is not below zero" for site in kept[:2])
        yield self.finding(
            "the loss falls below zero without bound",
            confidence=0.9,
            since_step=case.loss.first_step,  # it was defined like that from the beginning
            where=where(term.source, op=None) if term is not None else place,
            why=f"the loss went from {number(first)} through zero, in step {since}, to {number(finite[-1][1])}, faster"
            f" and faster: it has no lower bound, and minimising it never ends{runs}{parts}. A term that should stay"
            " small is made as negative as possible: its sign is wrong, as of a KL term or a log-likelihood without its"
            " minus",
            facts=[("first loss", first), ("first step below zero", since), ("loss now", finite[-1][1])],
            fix=("look at each term of the loss on its own and turn the sign of the one that runs to minus infinity",),
            confirm=("print the terms of the loss in the first steps: one of them is negative and falls",),
        )
