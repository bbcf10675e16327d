"""A divergence between distributions that is given something else."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.losses import LossSite
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, number, where
from tensight.records import Finding

CALLS = 2  # how often a call must look like this


class KlDivOnProbabilities(Rule):
    """kl_div fed with something that is no log-probability."""

    fault = "kl_div_on_probabilities"
    category = "loss-definition"
    finds = "Probabilities or logits given to kl_div as its input, which expects log-probabilities."
    evidence = ("range and row sums of the input of kl_div", "the operator that made it", "sign of the loss")
    explains = frozenset({"lr_too_low", "vanishing_gradient", "loss_sign_flipped"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for site in case.losses:
            if site.function != "kl_div" or site.calls < CALLS or not math.isfinite(site.prediction_max):
                continue
            if site.prediction_max > 1e-4:  # a log-probability is never positive
                yield self._say(case, site)

    def _say(self, case: Case, site: LossSite) -> Finding:
        sums = abs(site.row_sum_min - 1) < 0.01 and abs(site.row_sum_max - 1) < 0.01
        probable = site.prediction_min >= 0 and site.prediction_max <= 1 + 1e-3
        probabilities = probable and (sums or site.made_by in ("softmax", "sigmoid"))
        what = "probabilities" if probabilities else "logits"
        negative = f" The loss is {number(case.loss.last)}, and a divergence is never negative." * (case.loss.last < 0)
        return self.finding(
            f"kl_div gets {what} instead of log-probabilities",
            confidence=0.95,
            since_step=site.first_step,
            where=where(site.source, op="kl_div"),
            why=f"the first argument of kl_div{at(site.source)} is to hold log-probabilities, which are never above 0;"
            f" it was given {what} between {number(site.prediction_min)} and {number(site.prediction_max)}."
            f"{negative} What is minimised is then no distance between the two distributions",
            facts=[
                ("smallest value of the input", site.prediction_min),
                ("largest value of the input", site.prediction_max),
                ("row sums, smallest", site.row_sum_min if math.isfinite(site.row_sum_min) else None),
                ("loss now", case.loss.last),
            ],
            fix=("give it log-probabilities: kl_div(log_softmax(x, dim=1), target, reduction='batchmean')",),
            confirm=("print the input of kl_div: nothing in it may be above 0",),
        )
