"""Batches in which one sample stands again and again."""

from __future__ import annotations

from collections.abc import Iterable

from tensight.diagnosis.case import Case
from tensight.diagnosis.modes import NetworkMode
from tensight.diagnosis.rule import Rule
from tensight.diagnosis.words import number, where
from tensight.records import Finding

PASSES = 5  # that were looked at
NOT_LEARNT = 0.9  # of the loss at the beginning


class SameSampleRepeated(Rule):
    """Every sample of a batch is the same, but their labels are not."""

    fault = "same_sample_repeated"
    category = "data"
    finds = "Batches whose samples are all the same input, while the labels differ: an index that does not move."
    evidence = ("rows of the input of each network, compared", "labels of the batch", "course of the loss")
    explains = frozenset({"labels_shuffled_against_inputs", "lr_too_low", "vanishing_gradient", "few_distinct_samples"})
    every = 10

    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        trend = case.loss.trend()
        if trend is None or trend.end < NOT_LEARNT * trend.begin or not self._labels_differ(case):
            return
        for network, mode in case.modes.networks.items():
            if network in case.trained() and mode.same_rows >= PASSES and not mode.other_rows:
                yield self._say(case, network, mode)
                return

    @staticmethod
    def _labels_differ(case: Case) -> bool:
        site = case.losses.main()
        if site is None:
            return False
        low, high = site.number("target_min"), site.number("target_max")
        return low is not None and high is not None and low < high

    def _say(self, case: Case, network: str, mode: NetworkMode) -> Finding:
        loader = next((part for (kind, _), part in case.parts.items() if kind == "loader"), None)
        return self.finding(
            "every sample of a batch is the same input",
            fault="constant_input",
            confidence=0.9,
            since_step=mode.first_same_rows,
            where=where(
                loader.source if loader is not None else None, module=case.first_module(network), network=network
            ),
            why=f"in all {mode.same_rows} batches that were looked at all rows of the input are"
            " identical, while the labels differ: the input data is constant and tells nothing about the target, and"
            f" the loss is {number(case.loss.last)}, it began at {number(case.loss.first)}",
            facts=[
                ("batches with identical rows", mode.same_rows),
                ("batches with different rows", mode.other_rows),
                ("loss, first and last", f"{number(case.loss.first)}, {number(case.loss.last)}"),
            ],
            fix=(
                "look at how a sample is fetched: an index that is always 0 (index // len(self)), a loop variable that"
                " is never used, one sample expanded to a batch",
            ),
            confirm=("compare two samples of the data set: torch.equal(data[0][0], data[1][0])",),
        )
