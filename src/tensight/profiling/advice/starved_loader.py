"""The loader is too slow."""

from __future__ import annotations

from statistics import median

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, milliseconds, percent
from tensight.records import Evidence
from tensight.records.timing import LoaderTime

SHARE = 0.15
WAIT = 0.002
BUSY = 0.6  # processor share from which the loader computes rather than waits


def _why(reading: Reading, loader: LoaderTime, wait: float, busy: float) -> str:
    if not loader.workers:
        return (
            f"a batch takes {milliseconds(wait)}, of which the loader's thread computes {percent(busy)}; "
            "the loader has 0 workers, so nothing is fetched while the model computes"
        )
    use = reading.worker_use(loader)
    known = f" compute {percent(use)} of the time and" if use is not None else ""
    return f"a batch is waited for {milliseconds(wait)}: {loader.workers} workers{known} do not keep up with the model"


class StarvedLoader(AdviceRule):
    fault = "data_loading_starvation"
    symptom = "The training waits for its batches."
    measure = "Share of the median step that is spent in the loader, and seconds for a batch."
    threshold = "15 % of a step and 2 ms a batch; the waiting thread itself is mostly idle, or there are workers."
    advice = "More workers that stay alive, prefetching, faster storage; decode and resize once, beforehand."

    def look(self, reading: Reading) -> Advice | None:
        loader = reading.loader
        share = reading.typical("data")
        if loader is None or not loader.batches or share < SHARE:
            return None
        # the usual batch, as the usual step: workers that are started once an epoch would make many of them no better
        wait = median(loader.waits) if loader.waits else loader.seconds / loader.batches
        busy = reading.busy(loader)
        if wait < WAIT or (loader.workers == 0 and busy >= BUSY):
            return None
        cores = int(reading.number("cores")) or 1
        workers = max(2, min(8, 2 * cores)) if not loader.workers else 2 * loader.workers
        fix = [f"give the loader workers: num_workers={workers}, persistent_workers=True"]
        if loader.workers:
            fix = [f"more workers than {loader.workers}: num_workers={workers}; or make a sample cheaper"]
        if reading.accelerator and not loader.pinned:
            fix.append("pin_memory=True and .to(device, non_blocking=True)")
        fix.append("keep the data on a local disk, in few large files, already decoded")
        return Advice(
            self.fault,
            f"the training waits for data: {percent(share)} of a step",
            _why(reading, loader, wait, busy),
            share,
            loader.source,
            evidence=(
                Evidence("seconds for a batch", round(wait, 6)),
                Evidence("share of the median step", round(share, 3)),
                Evidence("workers", loader.workers),
                Evidence("processor share while waiting", round(busy, 3)),
            ),
            fix=tuple(fix),
            tries=(f"workers={workers}",),
        )
