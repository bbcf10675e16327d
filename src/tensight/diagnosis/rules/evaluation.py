"""Evaluation that runs as training does."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.rules.mode import sensitive
from tensight.diagnosis.words import at, plural, some, where
from tensight.records import Finding

RARE = 0.34  # of the steps: what happens in most of them is part of the training


class TrainModeInEvaluation(Rule):
    """A model that is evaluated in training mode."""

    fault = "train_mode_in_evaluation"
    category = "mode"
    finds = "Evaluation without model.eval(): dropout drops units and batch norm learns from the evaluation data."
    evidence = (
        "forward passes without gradients in training mode, in a row or with a loss, only now and then",
        "dropout and batch norm modules",
        "whether eval() was ever called",
    )
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        for name, mode in case.modes.networks.items():
            if mode.switched or name not in case.networks or name not in case.trained():
                continue
            often = RARE * max(1, mode.steps)
            in_a_row = 2 <= mode.bursts <= often and mode.burst_calls >= 3 * mode.bursts - 2
            judged = 3 <= mode.judged <= often
            if not in_a_row and not judged:
                continue
            times, passes = (mode.bursts, mode.burst_calls) if in_a_row else (mode.judged, mode.judged)
            source = mode.burst_source if in_a_row else mode.judged_source
            affected = sensitive(case, name)
            if not affected or any(other != name for other in case.trained()):
                continue  # several networks in turn: samples of one for another
            kinds = some(sorted({module.type for module in affected}))
            yield self.finding(
                "the model is evaluated in training mode",
                confidence=0.85,
                since_step=max(0, mode.first_burst if in_a_row else mode.first_judged),
                where=where(source, module=affected[0].path, op="eval", network=name),
                why=f"{plural(passes, 'forward pass')} without gradients in"
                f" {plural(times, 'evaluation')}"
                f" {at(source).strip()} ran with model.training = True: model.eval() is never called, so"
                f" {plural(len(affected), 'module')} ({kinds}) behave as in training: dropout drops units, and batch"
                f" norm uses"
                " the batch and takes the evaluation data into its running statistics",
                facts=[
                    ("evaluations in training mode", times),
                    ("forward passes in them", passes),
                    ("modules this matters to", len(affected)),
                ],
                fix=("call model.eval() before evaluating and model.train() after it",),
                confirm=("evaluate twice: the results differ",),
            )
