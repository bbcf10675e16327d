"""Attention that looks at one place only before it has learnt anything."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.kept import Kept
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import number, plural, where
from tensight.records import Finding, Stats, TensorInfo

PEAKED = 0.65  # 0 where all places weigh the same, 1 where one has all the weight; scaled scores give about 0.3
PLACES = 4  # to look at, at least
STEPS = 60
NOT_LEARNT = 0.9  # of the loss of guessing, or of the beginning


class AttentionSaturated(Rule):
    """Scores that are so large that the softmax over them is nearly one-hot from the first step on."""

    fault = "attention_scores_not_scaled"
    category = "gradient-flow"
    finds = "Attention whose softmax is saturated before any update: scores are not divided by the root of their width."
    evidence = (
        "spread of the weights that a softmax inside the network gives, in the first step",
        "course of the loss",
    )
    explains = frozenset({"labels_shuffled_against_inputs", "lr_too_low", "vanishing_gradient"})
    every = 20

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        trend = case.loss.trend()
        if trend is None or case.steps < STEPS or not case.beginning or case.beginning[0].step != 0:
            return
        floor = case.chance_loss() or trend.begin
        if trend.end < NOT_LEARNT * min(floor, trend.begin):
            return
        for network in case.trained():
            seen = list(self._attention(case.beginning[0], network))
            if seen and min(peaked for _, _, peaked in seen) > PEAKED:
                yield self._say(case, network, seen)
                return

    @staticmethod
    def _attention(kept: Kept, network: str) -> Iterable[tuple[TensorInfo, int, float]]:
        """Softmaxes over places: of a square of scores, for queries and keys."""
        for one, info in kept.forward():
            square = len(info.shape) >= 3 and info.shape[-1] == info.shape[-2] >= PLACES
            if info.network == network and info.kind == "activation" and "softmax" in info.type.lower() and square:
                yield info, info.shape[-1], _peaked(one.stats, info.shape[-1])

    def _say(self, case: Case, network: str, seen: list[tuple[TensorInfo, int, float]]) -> Finding:
        info, places, peaked = seen[0]
        return self.finding(
            f"attention in {info.node or 'the model'} is saturated from the start",
            confidence=0.84,
            since_step=0,
            where=where(
                info.source or case.source_of(network, info.node), module=info.node, op="softmax", network=network
            ),
            why=f"in the first step, before any update, the softmax over {places} places in {info.node or 'the model'}"
            f" is nearly one-hot (peakedness {number(peaked)} of 1; about 0.3 is usual), in"
            f" {plural(len(seen), 'attention layer')} of {len(seen)}: the scores are too large, as when"
            " they are not scaled by 1/sqrt(head width). A saturated softmax passes next to no"
            f" gradient back to queries and keys, and the loss stays at {number(case.loss.last)}",
            facts=[
                ("peakedness of the attention weights in the first step", peaked),
                ("places", places),
                ("attention layers", len(seen)),
            ],
            fix=("scale the scores before the softmax: q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])",),
            confirm=("print the largest attention weight of the first batch: it is close to 1",),
        )


def _peaked(stats: Stats, places: int) -> float:
    """
    >>> round(_peaked(Stats(4, std=math.sqrt(1 / 4 * 3 / 4)), 4), 3), _peaked(Stats(4, std=0.0), 4)
    (1.0, 0.0)
    """
    share = 1.0 / places
    return (stats.std or 0.0) / math.sqrt(share * (1.0 - share))
