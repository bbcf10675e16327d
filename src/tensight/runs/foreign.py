"""Folders that are no runs and can be shown as one, as strings: what makes them into runs stands above this layer."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensight.workers import Workers

# what it is → who makes a run of it: a function from a folder to the run's folder, or None when it is something else
OPENERS = {
    "dump": "tensight.dump.opening:run_of",
    "graph files and profiles of MindSpore": "tensight.dump.foreign_files:run_of",
}


def run_of(path: Path, workers: Workers | None = None) -> Path | None:
    """The run that shows a folder which is none itself; None when nobody knows it. `workers` help to make it."""
    for place in OPENERS.values():
        module, _, attribute = place.partition(":")
        opener: Callable[..., Path | None] = getattr(importlib.import_module(module), attribute)
        found = opener(path, workers=workers)
        if found is not None:
            return found
    return None
