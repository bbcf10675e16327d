"""Some batches come late."""

from __future__ import annotations

import statistics

from tensight.profiling.advice.starved_loader import SHARE
from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, milliseconds, percent
from tensight.records import Evidence

TAIL = 5.0  # a late batch against the median one
LEAST = 0.005
MOST_OFTEN = 0.4  # of the batches; more than that are no exceptions
FEWEST = 3
AHEAD = 8  # batches for each worker


class Jitter(AdviceRule):
    fault = "data_jitter"
    symptom = "Most steps are fast, some are much slower, and it is the data they wait for."
    measure = "Batches that take five times the median, what they add, and how much of the slow steps is data."
    threshold = "Three such batches of at least 5 ms that make up 10 % of the time."
    advice = "Prefetch more so that a late sample is hidden; look what is special about it."

    def look(self, reading: Reading) -> Advice | None:
        loader = reading.loader
        if loader is None or len(loader.waits) < 10 or not reading.seconds:
            return None
        # without what the thread waited for a processor: a busy machine makes every step a late one
        steps = [(max(0.0, one.seconds - one.delay), max(0.0, one.data - one.data_delay)) for one in reading.clocked]
        usual = statistics.median(seconds for seconds, _ in steps)
        if statistics.median(data for _, data in steps) >= SHARE * usual:
            return None
        waits = loader.waits
        median = reading.percentile(waits, 50)
        late = [wait for wait in waits if wait > max(TAIL * median, LEAST)]
        whole = sum(seconds for seconds, _ in steps)
        if len(late) < FEWEST or len(late) > MOST_OFTEN * len(waits) or not whole:
            return None
        lost = (sum(late) - median * len(late)) / whole
        slow = [(seconds, data) for seconds, data in steps if seconds > 2 * usual]
        caused = sum(data for _, data in slow) / sum(seconds for seconds, _ in slow) if slow else 0.0
        if lost < 0.1 or caused < 0.5:
            return None
        line = reading.hottest("data")
        source = line.source if line is not None and loader.workers == 0 else loader.dataset_source or loader.source
        p99 = reading.percentile(waits, 99)
        return Advice(
            self.fault,
            f"{len(late)} of {len(waits)} batches come late and cost {percent(lost)} of the time",
            f"the median batch takes {milliseconds(median)}, the slowest hundredth {milliseconds(p99)}; "
            f"slow steps spend {percent(caused)} of their time waiting for it",
            lost,
            source,
            evidence=(
                Evidence("median wait", round(median, 6)),
                Evidence("99th percentile", round(p99, 6)),
                Evidence("late batches", len(late)),
                Evidence("share of slow steps that is data", round(caused, 3)),
            ),
            fix=(
                f"workers with a deeper queue hide it: num_workers={loader.workers or 2}, prefetch_factor={AHEAD},"
                " persistent_workers=True",
                "look which samples are slow: large files, a cold cache, a rare branch of the transform",
            ),
            tries=(f"prefetch={AHEAD}",),
        )
