"""What `tensight.print` and the data check have left in a run."""

from __future__ import annotations

from pathlib import Path

from tensight.records.print import BatchSamples, Print
from tensight.store import layout
from tensight.store.journal import PRINTS, SAMPLES, read


def prints(folder: str | Path, rank: int = 0, after: int = 0) -> list[tuple[int, Print]]:
    """Calls of `tensight.print` with their numbers, those above `after`; also while the training runs.

    >>> prints("runs/there-is-none")
    []
    """
    return read(layout.part(Path(folder), rank) / PRINTS, Print, after)


def samples(folder: str | Path, rank: int = 0, after: int = 0) -> list[tuple[int, BatchSamples]]:
    """Batches that were looked at with `tensight.kit.check_batch`."""
    return read(layout.part(Path(folder), rank) / SAMPLES, BatchSamples, after)
