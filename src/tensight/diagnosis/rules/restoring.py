"""Weights that an evaluation puts in and never takes out again."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import at, median, number, plural, where
from tensight.records import Finding

TIMES = 3  # that it must happen
WORSE = 1.1  # times the loss before: training is thrown back
MOSTLY = 0.7  # of the times


class WeightsNotRestored(Rule):
    """Averaged or older weights that are loaded for an evaluation and then trained on."""

    fault = "weights_not_restored"
    category = "optimizer-update"
    finds = (
        "Other weights (a moving average, a checkpoint) that an evaluation loads and leaves: training is thrown back."
    )
    evidence = ("load_state_dict, evaluation and backward passes in their order", "the loss before and after each")
    explains = frozenset({"lr_too_low", "weights_overwritten"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        swaps = case.reloads.swaps
        if len(swaps) < TIMES:
            return
        points = [(step, value) for step, value in case.loss.points if math.isfinite(value)]
        judged = []
        for swap in swaps:
            earlier = [value for step, value in points if swap.step - 5 <= step < swap.step]
            later = [value for step, value in points if swap.step <= step < swap.step + 3]
            if len(earlier) >= 3 and len(later) >= 2 and median(earlier) > 0:
                judged.append((swap, median(earlier), median(later)))
        worse = [(swap, before, after) for swap, before, after in judged if after > WORSE * before]
        if len(worse) < TIMES or len(worse) < MOSTLY * len(judged):
            return
        first, before, after = worse[0]
        entry = next((one for one in case.ledger.of(first.network) if one.held), None)
        yield self.finding(
            "weights loaded for an evaluation are not restored after it",
            confidence=0.9,
            since_step=first.step,
            where=where(
                first.source,
                op="load_state_dict",
                parameter=entry.name if entry is not None else None,
                network=first.network,
            ),
            why=f"load_state_dict{at(first.source)} overwrites the weights of {first.network}, the network is evaluated"
            f" with them, and training goes on from there: {plural(len(swaps), 'time')} so far, first in step"
            f" {first.step}. Each time the updates since the last one are lost; the loss went from {number(before)} to"
            f" {number(after)}",
            facts=[
                ("times that weights were loaded and not restored", len(swaps)),
                ("of which the loss rose", len(worse)),
                ("loss before the first", before),
                ("loss after it", after),
            ],
            fix=(
                "keep the trained weights and put them back: kept = copy.deepcopy(model.state_dict()) before,"
                " model.load_state_dict(kept) after the evaluation; or evaluate the averaged copy itself",
            ),
            confirm=("compare a weight before and after the evaluation: it must be the same",),
        )
