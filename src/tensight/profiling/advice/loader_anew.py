"""A loader begins anew for every batch."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, percent
from tensight.records import Evidence

OFTEN = 0.5  # iterators a step


class LoaderAnew(AdviceRule):
    fault = "loader_made_anew"
    symptom = "A loader, or its iterator, is made in every step."
    measure = "Iterators made in the clocked steps against batches taken, where an epoch has more than one batch."
    threshold = "One for every second step, with at most two batches from each."
    advice = "Make the loader once and run over it; keep workers with persistent_workers=True."
    explains = ("data_loading_starvation", "slow_transform", "data_jitter")

    def look(self, reading: Reading) -> Advice | None:
        steps = len(reading.clocked)
        for loader in reading.profile.loaders:
            if not loader.iterators or loader.length == 1 or steps < 4:
                continue
            if loader.iterators < OFTEN * steps or loader.batches > 2 * loader.iterators:
                continue
            share = reading.own_share("data")
            return Advice(
                self.fault,
                "the loader begins anew for every batch",
                f"{loader.iterators} iterators were made in {steps} steps and gave {loader.batches} batches: each "
                "shuffles the whole data set" + (" and starts its workers" if loader.workers else ""),
                max(share, 0.05),
                loader.source,
                evidence=(
                    Evidence("iterators", loader.iterators),
                    Evidence("batches", loader.batches),
                    Evidence("workers", loader.workers),
                    Evidence("share of the time in the loader", percent(share)),
                ),
                fix=(
                    "make the loader before the loop and write `for batch in loader:`",
                    "persistent_workers=True keeps workers from epoch to epoch",
                ),
                confidence=0.97,
            )
        return None
