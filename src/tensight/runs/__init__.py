"""Recorded runs as Python objects: findings, hits, tensors, statistics, the report."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensight.runs.listing import Runs, RunSummary
    from tensight.runs.run import Run, open_run

__all__ = ["Run", "RunSummary", "Runs", "open_run"]


def __getattr__(name: str) -> object:
    # a training uses some modules of this package, and opens a run at its end at the earliest
    if name in ("Run", "open_run"):
        from tensight.runs import run as home
    elif name in ("Runs", "RunSummary"):
        from tensight.runs import listing as home  # type: ignore[no-redef]
    else:
        raise AttributeError(f"module 'tensight.runs' has no attribute {name!r}")
    found: object = getattr(home, name)
    return found
