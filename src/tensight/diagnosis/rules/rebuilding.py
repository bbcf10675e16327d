"""Optimizers that are made anew for every update."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, number, plural, where
from tensight.records import Finding, Part, Source

TIMES = 10  # optimizers made by one line
UPDATES = 2.0  # that each of them makes


class OptimizerRebuilt(Rule):
    """An optimizer that never lives long enough to use its state."""

    fault = "optimizer_rebuilt_every_step"
    category = "optimizer-update"
    finds = "A line that makes a new optimizer for every update, so that momentum and moments are always empty."
    evidence = ("optimizers made by one line for the same parameters", "updates that each of them makes")
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        if case.order.updates < TIMES:
            return
        lines: dict[tuple[str, Source | None, frozenset[str]], list[Part]] = {}
        for part in case.optimizers():
            if self._remembers(part) and part.parameters:
                lines.setdefault((part.type, part.source, frozenset(part.parameters)), []).append(part)
        for (kind, source, held), parts in lines.items():
            steps = sum(case.order.optimizer(part.name).steps for part in parts)
            if len(parts) < TIMES or not 0 < steps <= UPDATES * len(parts) or steps < 0.4 * case.order.updates:
                continue
            lost = "its moments" if kind not in ("SGD", "RMSprop") else "its momentum"
            yield self.finding(
                f"a new {kind} is made for every update",
                confidence=0.93,
                since_step=0,
                where=where(source, op=f"{kind}.step"),
                why=f"the line{at(source)} has made {plural(len(parts), 'optimizer')} ({kind}) for the same"
                f" {plural(len(held), 'parameter')}, and each made {number(steps / len(parts))} updates: {lost} are"
                " thrown away with it, so every update begins with an empty state. Adam without its moments takes a"
                " full step in the direction of each sign, however small or noisy the gradient is",
                facts=[("optimizers made", len(parts)), ("updates by them", steps)],
                fix=("make the optimizer once, before the loop, and keep it",),
                confirm=("print(len(optimizer.state)) before a step: it is 0 every time",),
            )

    @staticmethod
    def _remembers(part: Part) -> bool:
        """Whether anything is lost with it: plain descent has no state, and LBFGS fills its own in one step."""
        momentum = part.settings.get("momentum")
        if part.type == "LBFGS":
            return False
        return part.type != "SGD" or (isinstance(momentum, (int, float)) and momentum > 0)
