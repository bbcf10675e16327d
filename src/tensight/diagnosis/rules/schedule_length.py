"""A schedule that was made for every update and is stepped far less often."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import number, where
from tensight.records import Finding, Part

UPDATES = 60
RARELY = 8  # updates for each step of the schedule
SHORTEST, LONGEST = 0.7, 1.5  # of the updates there were: the run was not cut short, and each was meant


class OneCyclePerEpoch(Rule):
    """OneCycleLR made for as many steps as there are updates, but stepped once per epoch."""

    fault = "scheduler_stepped_per_epoch"
    category = "lr-schedule"
    finds = "A OneCycleLR that counts updates but is stepped once per epoch: its warm-up never ends."
    evidence = ("total_steps of the schedule", "how often it was stepped", "number of updates")
    explains = frozenset({"lr_too_low", "warmup_never_ends", "labels_shuffled_against_inputs", "vanishing_gradient"})
    every = 1000

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        steps = case.last_step + 1  # one for each round of updates, those that nobody looked at too
        if not final or case.crashed or steps < UPDATES:
            return
        for (noun, _), part in case.parts.items():
            whole, count = part.settings.get("total_steps"), case.order.scheduler_counts.get(part.name, 0)
            if noun != "scheduler" or part.type != "OneCycleLR" or not isinstance(whole, int) or count < 2:
                continue
            if count * RARELY <= steps and SHORTEST * steps <= whole <= LONGEST * steps:
                yield self._say(case, part, whole, count, steps)

    def _say(self, case: Case, scheduler: Part, whole: int, count: int, steps: int) -> Finding:
        lr = case.lr(str(scheduler.settings.get("optimizer") or ""))
        rate = "" if lr is None else f"; the learning rate came no higher than {number(lr.most)}"
        return self.finding(
            "OneCycleLR is made for every update but stepped once per epoch",
            confidence=0.9,
            since_step=0,
            where=where(case.order.schedulers.get(scheduler.name) or scheduler.source, op="OneCycleLR.step"),
            why=f"the schedule has {whole} steps (total_steps), about as many as there were updates ({steps}),"
            f" but scheduler.step() is called once per epoch or so ({count} times when last seen): it got through"
            f" {number(100 * count / whole)} % of its course and the warm-up never ended{rate}",
            facts=[("total_steps", whole), ("calls of scheduler.step()", count), ("updates", steps)],
            fix=(
                "call scheduler.step() after each optimizer.step(), inside the loop over batches",
                "or count epochs: OneCycleLR(…, total_steps=epochs)",
            ),
            confirm=("print the learning rate of each epoch: it must rise to max_lr and fall again",),
        )
