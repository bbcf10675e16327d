"""A learning rate that is raised all along."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.nonfinite import NONFINITE
from tensight.diagnosis.words import at, median, number, where
from tensight.records import Finding

STEPS = 60
RISES = 4.0  # times, from a tenth of the run to its end
WORSE = 1.5  # times the best that the loss had been
SPIKE = 3.0  # times the loss before
DAMAGE = ("dead_relu", "exploding_gradient", "exploding_activation", "lr_too_high")


class LrKeepsRising(Rule):
    """A ramp without an end: the rate passes what the network bears, and what was learnt is lost."""

    fault = "lr_keeps_rising"
    category = "lr-schedule"
    finds = "A learning rate that rises from the first step to the last, as a warm-up without an end does."
    evidence = ("learning rate over the steps", "course of the loss")
    explains = frozenset({"lr_too_high", "dead_relu", "exploding_gradient", "exploding_activation"}) | NONFINITE
    every = 0

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        part = case.main_optimizer()
        lr = case.lr(part.name) if part is not None else None
        if part is None or lr is None or case.steps < STEPS or len(lr.points) < STEPS:
            return
        rates = [value for _, value in lr.points]
        early = rates[len(rates) // 10]
        if early <= 0 or rates[-1] < RISES * early or any(b < a for a, b in itertools.pairwise(rates)):
            return
        if rates[-1] < 1.05 * rates[-max(2, len(rates) // 10)]:
            return  # it has arrived
        died = [case.findings_of[fault] for fault in DAMAGE if case.findings_of.get(fault, 0) > 0]
        step = min(died, default=None) or self._broke(case)
        if step is None:
            return
        rate = next((value for at_step, value in lr.points if at_step >= step), rates[-1])
        source = next(iter(case.order.schedulers.values()), None) or part.source
        lowest = min((value for at_step, value in case.loss.points if at_step <= step), default=case.loss.first)
        yield self.finding(
            "the learning rate keeps rising and becomes too high",
            confidence=0.93,
            since_step=step,
            where=where(source, op=f"{part.type}.step"),
            why=f"the learning rate rises in every step, from {number(rates[0])} to {number(rates[-1])}: its warm-up"
            f" never ends. At {number(rate)}, in step {step}, it was too high and training broke: the loss had come"
            f" down to {number(lowest)} by then and is {number(case.loss.last)} now",
            facts=[
                ("first rate", rates[0]),
                ("rate now", rates[-1]),
                ("rate when training broke", rate),
                ("loss now", case.loss.last),
            ],
            fix=(f"end the warm-up: lr = base * min(1, (step + 1) / warmup){at(source)}",),
            confirm=("print the learning rate over the steps",),
        )

    @staticmethod
    def _broke(case: Case) -> int | None:
        """The step after which the loss did not come back to what it had been."""
        points = case.loss.points
        values = [value if math.isfinite(value) else math.inf for _, value in points]
        smooth = [median(values[max(0, at - 2) : at + 3]) for at in range(len(values))]
        for place in range(10, int(0.7 * len(values))):
            if values[place] > SPIKE * median(smooth[max(0, place - 20) : place - 2]) > 0:
                if min(smooth[place + 3 :]) >= 0.9 * min(smooth[: place - 2]):
                    return points[place][0]  # nothing was learnt any more
                break
        lowest = min(smooth)
        if lowest <= 0 or smooth[-1] < WORSE * lowest:
            return None
        last_good = max(at for at, value in enumerate(smooth) if value < WORSE * lowest)
        return points[last_good + 1][0] if last_good <= 0.9 * len(smooth) else None  # a last spike is no end
