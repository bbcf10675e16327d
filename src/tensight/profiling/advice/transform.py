"""Samples are made by slow Python, in the training's own thread."""

from __future__ import annotations

from tensight.profiling.advice.starved_loader import BUSY, SHARE, WAIT
from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, milliseconds, percent
from tensight.records import Evidence


class SlowTransform(AdviceRule):
    fault = "slow_transform"
    symptom = "Making a batch keeps the training's own thread busy."
    measure = "As for a starved loader, with no workers and the thread computing while it waits."
    threshold = "15 % of a step, 2 ms a batch, 60 % of it computing."
    advice = "Make the hottest line cheaper (whole arrays instead of a loop, cache results) or give it to workers."
    explains = ("data_loading_starvation",)

    def look(self, reading: Reading) -> Advice | None:
        loader = reading.loader
        share = reading.typical("data")
        if loader is None or not loader.batches or share < SHARE or loader.workers:
            return None
        wait = loader.seconds / loader.batches
        busy = reading.busy(loader)
        if wait < WAIT or busy < BUSY:
            return None
        line = reading.hottest("data")
        source = loader.dataset_source or loader.source
        if line is not None and (loader.source is None or line.source.line != loader.source.line):
            # a line of the loop itself means that the time is in code of others, below it
            inside = loader.dataset_source is None or line.source.function not in ("", "<module>", "main", "train")
            source = line.source if inside else source
        cores = int(reading.number("cores")) or 1
        workers = max(2, min(8, cores))
        return Advice(
            self.fault,
            f"samples are made by slow code: {percent(share)} of a step",
            f"a batch takes {milliseconds(wait)}, and the thread that trains computes {percent(busy)} of it",
            share,
            source,
            evidence=(
                Evidence("seconds for a batch", round(wait, 6)),
                Evidence("share of the median step", round(share, 3)),
                Evidence("processor share", round(busy, 3)),
                Evidence("samples on the hottest line", round(line.share, 3) if line else None),
            ),
            fix=(
                "compute whole arrays instead of looping in Python, and do what never changes once, beforehand",
                f"or let workers do it: num_workers={workers}, persistent_workers=True",
            ),
            tries=(f"workers={workers}",),
        )
