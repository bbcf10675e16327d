"""A learning rate that is raised all along, or again after it had come down."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.nonfinite import NONFINITE
from tensight.diagnosis.words import at, median, number, where
from tensight.records import Finding

STEPS = 60
RISES = 4.0  # times, from a tenth of the run to its end
WORSE = 1.5  # times the best that the loss had been
SPIKE = 3.0  # times the loss before
PER_UPDATE = 0.5  # calls of a scheduler
LOW, HIGH = 0.1, 0.8  # of the highest rate: it has come down, and is up again
SHORT = 20  # updates: nobody plans a swing of so few, but trainings have so few epochs
PER_EPOCH = 0.5  # of the batches of an epoch, where they are known
SHAKEN = 1.2  # times the loss at the lowest rate
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


class LrRisesAgain(Rule):
    """An annealing that is stepped past its end and turns back."""

    fault = "lr_schedule_turns_back"
    category = "lr-schedule"
    finds = "A CosineAnnealingLR that is stepped beyond T_max, where the rate rises to its beginning again."
    evidence = ("learning rate over the steps", "kind of the scheduler and its T_max", "how often it was stepped")
    explains = frozenset({"lr_too_high"})
    every = 25

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        found = [part for (kind, _), part in case.parts.items() if kind == "scheduler"]
        cosine = [part for part in found if part.type == "CosineAnnealingLR"]
        if len(found) != 1 or not cosine:
            return  # one of several takes turns with the others
        end, named = cosine[0].settings.get("T_max"), cosine[0].settings.get("optimizer")
        lr = case.lr(str(named)) or case.lr()
        if lr is None or not isinstance(end, (int, float)) or case.order.scheduler_steps <= end:
            return
        if case.order.scheduler_steps < PER_UPDATE * case.order.updates:
            return  # a swing over many epochs may be meant
        lowest, rises = self._rises(lr.points)
        if lowest is None or not rises:
            return
        if not self._counts_epochs(case, float(end)) and not (final and self._ends_high(case, lr.points)):
            return  # weights are kept at each bottom, or the last swing ends there
        source = next(iter(case.order.schedulers.values()), None) or cosine[0].source
        per_step = case.order.scheduler_steps / max(1, case.order.updates)
        yield self.finding(
            "the learning rate rises again: the cosine schedule is stepped past its end",
            confidence=0.86,
            since_step=lowest,
            where=where(source, op="CosineAnnealingLR.step"),
            why=f"CosineAnnealingLR brings the learning rate down over T_max = {number(end)} calls of step() and called"
            f" further up again: it was called {case.order.scheduler_steps} times ({number(per_step)} per update), and"
            f" the rate has come back to its beginning {rises} {'time' if rises == 1 else 'times'} since step {lowest}."
            " A T_max that counts epochs while scheduler.step() is called after each batch makes the rate swing up and"
            " down like this, and what was learnt at a low rate is shaken off",
            facts=[
                ("T_max", end),
                ("calls of scheduler.step()", case.order.scheduler_steps),
                ("times the rate rose again", rises),
                ("highest rate", lr.most),
            ],
            fix=(
                f"call scheduler.step() once per epoch, or give T_max in updates: epochs * len(loader)"
                f"{at(cosine[0].source)}",
            ),
            confirm=("print the learning rate over the steps",),
        )

    @staticmethod
    def _counts_epochs(case: Case, end: float) -> bool:
        """Whether a swing is so short that its end was hardly given in updates."""
        told = [part.settings.get("batches") for (kind, _), part in case.parts.items() if kind == "loader"]
        epochs = [float(one) for one in told if isinstance(one, (int, float)) and one > 1]
        return end <= (PER_EPOCH * max(epochs) if epochs else SHORT)

    @staticmethod
    def _ends_high(case: Case, points: Sequence[tuple[int, float]]) -> bool:
        """Whether the training ends near the highest rate, with a loss that had been lower at the lowest."""
        most = max(rate for _, rate in points)
        if points[-1][1] < HIGH * most:
            return False
        low = {step for step, rate in points if rate <= LOW * most}
        settled = [value for step, value in case.loss.points if step in low]
        latest = [value for _, value in case.loss.points[-max(5, len(settled) // 4) :]]
        return bool(settled) and median(latest) > SHAKEN * median(settled[-max(5, len(settled) // 4) :])

    @staticmethod
    def _rises(points: Sequence[tuple[int, float]]) -> tuple[int | None, int]:
        """(the step at which the rate was lowest before it first rose again, how often it did)"""
        most = max((rate for _, rate in points), default=0.0)
        lowest: tuple[float, int] | None = None
        turned: int | None = None
        rises = 0
        begun = False  # a rate that is low at first is being warmed up
        for step, rate in points:
            begun = begun or rate >= HIGH * most
            if begun and rate <= LOW * most and (lowest is None or rate < lowest[0]):
                lowest = (rate, step)
            elif lowest is not None and rate >= HIGH * most:
                rises += 1
                turned = lowest[1] if turned is None else turned
                lowest = None
        return turned, rises
