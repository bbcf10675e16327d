"""Two runs or two checkpoints against each other, of the same or of different frameworks.

tensight.compare("runs/torch-1", "runs/mindspore-1").first_divergence
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tensight.errors import UsageError

if TYPE_CHECKING:
    from tensight.compare.result import Comparison
    from tensight.workers import Workers


def compare(
    a: str | Path,
    b: str | Path,
    mapping: Mapping[str, str] | None = None,
    *,
    resumed_at: int | None = None,
    workers: Workers | None = None,
) -> Comparison:
    """Compare two recorded runs, or two checkpoints, and name the first place where they part.

    `mapping` says which module of `b` is which of `a` ({'encoder': 'backbone'}) where names alone do not tell.
    `resumed_at` says that `b` was resumed from a checkpoint after that many steps of `a`, which ran through.
    `workers` (`tensight.workers.workers_on("local")`) share the work.
    """
    from tensight.compare.checkpoints import is_checkpoint
    from tensight.compare.ranks import compare_ranks
    from tensight.compare.weights import compare_checkpoints
    from tensight.runs import open_run

    if is_checkpoint(a) != is_checkpoint(b):
        raise UsageError(f"{a} and {b}: compare two runs or two checkpoints, not one of each")
    if is_checkpoint(a):
        if resumed_at is not None:
            raise UsageError("resumed_at is about two runs, and these are checkpoints")
        return compare_checkpoints(Path(a), Path(b), workers)
    return compare_ranks(open_run(a), open_run(b), mapping, resumed_at, workers)


class _Callable(types.ModuleType):
    """This package: once imported it hides the function of the same name in `tensight`, so it can be called too."""

    def __call__(
        self,
        a: str | Path,
        b: str | Path,
        mapping: Mapping[str, str] | None = None,
        *,
        resumed_at: int | None = None,
        workers: Workers | None = None,
    ) -> Comparison:
        return compare(a, b, mapping, resumed_at=resumed_at, workers=workers)


sys.modules[__name__].__class__ = _Callable

__all__ = ["compare"]
