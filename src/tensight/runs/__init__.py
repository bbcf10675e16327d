"""Recorded runs as Python objects: findings, hits, tensors, statistics, the report."""

from tensight.runs.listing import Runs, RunSummary
from tensight.runs.run import Run, open_run

__all__ = ["Run", "RunSummary", "Runs", "open_run"]
