"""Gradients that are not cleared, not scaled, or never used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tensight.diagnosis.case import Case
from tensight.diagnosis.order import BackwardLine, ByHand, OptimizerCalls
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.nonfinite import NONFINITE
from tensight.diagnosis.words import at, median, number, plural, some, where
from tensight.records import Finding, Part

BY_HAND = 5  # steps that went on from gradients used before, where no optimizer tells its updates
DIVERGED = frozenset({"lr_too_high", "exploding_gradient", "exploding_activation", "dead_relu"}) | NONFINITE


def _type(case: Case, name: str) -> str:
    part = case.parts.get(("optimizer", name))
    return part.type if part is not None else name


class MissingZeroGrad(Rule):
    """Updates that use gradients which earlier updates have used already."""

    fault = "missing_zero_grad"
    category = "optimizer-update"
    finds = (
        "Optimizer steps on gradients that still hold those of earlier steps, since zero_grad is missing or misplaced."
    )
    evidence = (
        "order of zero_grad, backward and step of each optimizer",
        "gradients that were there before a backward",
    )
    explains = DIVERGED | {"sum_instead_of_mean", "gradient_accumulation_not_scaled"}
    every = 10
    lasting = True

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        findings = []
        for calls in case.order.optimizers.values():
            enough = calls.reused >= (3 if not final else 2)
            if enough and calls.reused >= 0.3 * calls.judged:
                findings.append(self._say(case, calls))
        by_hand = case.order.by_hand
        enough = by_hand.dirty >= BY_HAND and by_hand.dirty >= 0.8 * (by_hand.looked - 1)
        if not case.order.optimizers and enough and self._move(case):
            findings.append(self._say_by_hand(by_hand))
        return findings

    @staticmethod
    def _move(case: Case) -> bool:
        """Not that all weights are seen to stand still: gradients that add up meanwhile are an accumulation."""
        seen = [one.stats.change for kept in case.deep() for one, _ in kept.of_kind("weight")]
        known = [change.abs_mean for change in seen if change is not None]
        return not known or any(known)

    def _say_by_hand(self, by_hand: ByHand) -> Finding:
        return self.finding(
            "gradients are not cleared between updates by hand",
            confidence=0.9,
            since_step=by_hand.first_dirty,
            where=where(by_hand.source, op="backward"),
            why=f"weights are changed without an optimizer, and nothing clears .grad in between (no zero_grad): in"
            f" {by_hand.dirty} of {plural(by_hand.looked, 'step')} that were looked at, backward{at(by_hand.source)}"
            " found the gradients that the update before had used, and added to them: they accumulate",
            facts=[
                ("steps looked at", by_hand.looked),
                ("with gradients that were used before", by_hand.dirty),
                ("first of them", by_hand.first_dirty),
            ],
            fix=("after the update: net.zero_grad(), or p.grad = None for each parameter",),
            confirm=("print a gradient norm over the steps: it grows without the loss growing",),
        )

    def _say(self, case: Case, calls: OptimizerCalls) -> Finding:
        source = calls.backward_source or calls.step_source
        kind = _type(case, calls.name)
        networks = sorted(case.order.networks_of.get(calls.name) or ())
        if len(case.order.optimizers) > 1 and networks:
            kind += f" (of {some(networks)})"
        called = (
            "zero_grad is never called"
            if not calls.zeroed
            else f"zero_grad is called only {plural(calls.zeroed, 'time')}"
        )
        return self.finding(
            f"gradients of {kind} are not cleared between updates",
            confidence=0.95,
            since_step=calls.first_reuse,
            where=where(source, op="backward"),
            why=f"{called} in {plural(calls.steps, 'update')} of {kind}: each backward pass adds to gradients"
            f" that were not"
            f" cleared, so {plural(calls.reused, 'update')} since step {calls.first_reuse} used gradients of"
            f" earlier batches"
            " again (they accumulate)",
            facts=[
                ("updates", calls.steps),
                ("calls of zero_grad", calls.zeroed),
                ("updates on gradients that were used before", calls.reused),
                ("first of them", calls.first_reuse),
            ],
            fix=(f"call optimizer.zero_grad() before loss.backward(){at(source)}",),
            confirm=("print a gradient norm over the steps: it grows without the loss growing",),
        )


class AccumulationNotScaled(Rule):
    """Several backward passes per update, each with the whole loss."""

    fault = "gradient_accumulation_not_scaled"
    category = "optimizer-update"
    finds = "Gradient accumulation that adds up the losses of its micro-batches instead of averaging them."
    evidence = ("backward passes of one line per update", "loss given to backward against the loss function's value")
    explains = DIVERGED | {"sum_instead_of_mean"}
    every = 10
    urgent = True

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if any(kind == "pipeline" for kind, _ in case.parts):
            return []  # the schedule itself divides gradients by the number of micro-batches
        for line in case.order.lines.values():
            updates = line.per_update
            if len(updates) < 2:
                continue
            passes = int(median(updates))
            if passes < 2 or line.discarded > line.used:
                continue
            sure = self._whole_loss(case, passes)
            if sure <= 0:
                continue
            harmed = case.diverged() or "lr_too_high" in case.findings_of or case.trouble.first is not None
            # Summing up on purpose, with a rate that fits, is a choice: only harm makes it a fault.
            if harmed:
                return [self._say(case, line, passes, case.main_optimizer(), sure)]
        return []

    @staticmethod
    def _whole_loss(case: Case, passes: int) -> float:
        """How sure it is that each pass got the whole loss: by the loss function's value, or that of guessing."""
        site = case.losses.main()
        if site is None or site.first.get("reduction") == "sum" or not case.first_losses:
            return 0.0
        step, given = case.first_losses[0]
        # The value of a plain expression is what backward was given: it tells nothing.
        sites = [one for one in case.losses if one.function != "expression"]
        made = [[value for at_step, value in one.first_values if at_step == step] for one in sites]
        made = [values for values in made if values]
        if len(made) > 1 and len({len(values) for values in made}) == 1 and len(made[0]) <= len(given):
            return 0.95 if _is_whole(given[: len(made[0])], made) else 0.0
        own_values = [value for at_step, value in site.first_values if at_step == step]
        ratios = [own / value for own, value in zip(given, own_values) if value and site.function != "expression"]
        if ratios:
            return 0.95 if 0.98 < median(ratios) < 1.02 else 0.0
        own = median(list(given))
        chance = case.chance_loss()
        if chance and passes >= 4:
            return 0.85 if own > 0.6 * chance else 0.0
        return 0.0

    def _say(self, case: Case, line: BackwardLine, passes: int, part: Part | None, confidence: float) -> Finding:
        return self.finding(
            f"{passes} backward passes per update, and the loss is not divided by {passes}",
            confidence=confidence,
            since_step=case.first_losses[0][0],
            where=where(line.source, op="backward"),
            why=f"gradients of {passes} backward passes accumulate before each update, and each pass gets the"
            f" whole mean loss:"
            f" they sum up instead of being averaged, so the effective learning rate is {passes} times the one"
            f" that was set",
            facts=[
                ("backward passes per update", passes),
                ("loss given to backward, first", case.first_losses[0][1][0]),
                ("learning rate", part.settings.get("lr") if part is not None else None),
                ("loss now", case.loss.last),
            ],
            fix=(f"scale the loss: (loss / {passes}).backward(){at(line.source)}",),
            confirm=(f"divide the learning rate by {passes}: training behaves",),
        )


def _is_whole(given: Sequence[float], made: Sequence[Sequence[float]]) -> bool:
    """Whether each loss is the plain sum of what several loss functions gave, or one of two with the other weighted.

    >>> _is_whole([6.0, 5.0], [[1.0, 2.0], [5.0, 3.0]]), _is_whole([3.5, 3.5], [[1.0, 2.0], [5.0, 3.0]])
    (True, True)
    >>> _is_whole([1.5, 1.25], [[1.0, 2.0], [5.0, 3.0]]), _is_whole([0.75, 0.6], [[1.0, 2.0], [5.0, 3.0]])
    (False, False)
    """
    sums = [sum(values) for values in zip(*made)]
    if all(abs(own - whole) <= 0.02 * abs(whole) for own, whole in zip(given, sums)):
        return True
    if len(made) != 2 or len(given) < 2:
        return False
    for full, other in (made, reversed(made)):
        weights = [(own - value) / beside for own, value, beside in zip(given, full, other) if beside]
        if len(weights) == len(given) and min(weights) > 0 and max(weights) < 1.02 * min(weights):
            return True
    return False


class TooFewOptimizerSteps(Rule):
    """Backward passes whose gradients are cleared before anything used them."""

    fault = "too_few_optimizer_steps"
    category = "optimizer-update"
    finds = "Backward passes whose gradients zero_grad throws away because no optimizer step comes between."
    evidence = ("order of backward, zero_grad and step, per line of code",)
    explains = frozenset({"lr_too_low", "labels_shuffled_against_inputs", "gradient_accumulation_not_scaled"})
    every = 5

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        order = case.order
        for line in order.lines.values():
            never = not order.updates and line.discarded >= 10 and bool(order.optimizers)
            if never or (line.discarded >= 5 and line.used and line.discarded >= 3 * line.used):
                return [self._say(case, line)]
        return []

    def _say(self, case: Case, line: BackwardLine) -> Finding:
        part = case.main_optimizer()
        calls = case.order.optimizer(part.name) if part is not None else None
        source = (calls.step_source if calls is not None else None) or line.zero_source
        kind = part.type if part is not None else "optimizer"
        passes = line.discarded + line.used
        updates = case.order.updates
        ratio = f"{number(round(passes / updates))} backward passes" if updates else "all backward passes"
        return self.finding(
            f"optimizer.step() is called {plural(updates, 'time')} for {plural(passes, 'backward pass')}",
            confidence=0.95,
            since_step=max(line.first_discarded, 0),
            where=where(source, op=f"{kind}.step"),
            why=f"there is one step for {ratio}: {line.discarded} of {passes} were cleared by zero_grad without"
            f" an optimizer step"
            " after them, so their gradients were thrown away; step() stands outside the loop over batches",
            facts=[("backward passes", passes), ("of which thrown away", line.discarded), ("updates", updates)],
            fix=(f"move optimizer.step() into the loop, right after loss.backward(){at(line.source)}",),
        )
