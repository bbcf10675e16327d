"""What the server answers about time and searches."""

from __future__ import annotations

import msgspec

from tensight.profiling.difference import TimeDifference
from tensight.records import Finding
from tensight.records.search import Search
from tensight.records.timing import Profile


class TimeAdvice(msgspec.Struct, frozen=True):
    """An advice: a finding, and the share of a step that it may save."""

    finding: Finding
    gain: float


class RankTime(msgspec.Struct, frozen=True):
    """One rank's profile with the numbers a page shows first."""

    rank: int
    seconds: float
    median: float
    split: dict[str, float]
    own: float
    trace_cost: float | None
    p50: float
    p99: float
    flops: float
    utilisation: float | None  # of what one large matrix product reaches
    processors: float  # that the process keeps busy
    delayed: float  # share of a step in which the training's thread waits for a processor
    worker_use: float | None  # of the loader that was waited for longest
    profile: Profile
    advice: tuple[TimeAdvice, ...]
    trace: bool  # whether there is a trace to download


class TimeView(msgspec.Struct, frozen=True):
    """The profiles of a run: one for each rank; none when it was not profiled."""

    ranks: tuple[RankTime, ...]
    others: tuple[str, ...]  # other runs here that have a profile


class SearchView(msgspec.Struct, frozen=True):
    """A search, and the runs of its trials as the server knows them."""

    id: str
    folder: str
    search: Search
    runs: dict[int, str]


ALL = (TimeView, SearchView, TimeDifference)
