"""Several ranks side by side: who is slow, in which part."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, milliseconds, percent
from tensight.records import Evidence
from tensight.records.timing import Part5

SPREAD = 0.1
COMPUTING: tuple[Part5, ...] = ("data", "forward", "update", "rest")  # in backward, fast ranks wait for the slow one


def slow_rank(readings: Sequence[Reading]) -> Advice | None:
    """The rank that all others wait for: by what it does before gradients are exchanged."""
    if len(readings) < 2:
        return None
    work = [sum(reading.split[part] for part in COMPUTING) for reading in readings]
    step = statistics.fmean(reading.seconds for reading in readings)
    usual = statistics.median_low(work)
    slowest = max(range(len(work)), key=work.__getitem__)
    spread = (work[slowest] - usual) / step if step else 0.0
    if spread < SPREAD:
        return None
    others = [reading for index, reading in enumerate(readings) if index != slowest]
    part = max(
        COMPUTING,
        key=lambda name: readings[slowest].split[name] - statistics.fmean(one.split[name] for one in others),
    )
    rank = readings[slowest].profile.rank
    line = readings[slowest].hottest(part)
    return Advice(
        "slow_rank",
        f"all ranks wait for rank {rank}: {percent(spread)} of a step",
        f"rank {rank} needs {milliseconds(work[slowest])} before gradients are exchanged, the others "
        f"{milliseconds(usual)}; the difference is in {part}",
        spread,
        line.source if line is not None else None,
        evidence=(
            Evidence("rank", rank),
            Evidence("part", part),
            *(Evidence(f"rank {one.profile.rank}", milliseconds(spent)) for one, spent in zip(readings, work)),
        ),
        fix=(
            f"look at rank {rank} alone: its data, its processor, its device, its disk",
            "give every rank the same amount of data: DistributedSampler, drop_last=True",
        ),
        confidence=0.8,
        rank=rank,
    )
