"""The audit log of a run: everything that changed the training."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path

from tensight.records.audit import AuditEntry
from tensight.runs.blocks import plain
from tensight.store import layout
from tensight.store.journal import AUDIT, read


def audit(folder: str | Path, rank: int | None = None) -> list[AuditEntry]:
    """What was done to a training, in order of time; of one rank, or of all.

    >>> audit("runs/there-is-none")
    []
    """
    ranks = layout.ranks(Path(folder)) if rank is None else [rank]
    found = [entry for one in ranks for _, entry in read(layout.part(Path(folder), one) / AUDIT, AuditEntry)]
    return sorted(found, key=lambda entry: (entry.time, entry.rank))


def lines(entries: Iterable[AuditEntry], *, ranks: bool = False) -> list[str]:
    """Each entry in one line: when, at which step, who, what.

    >>> lines([AuditEntry(0.0, 3, "page", "pause")])[0].split(maxsplit=2)[2]
    'step 3       page      pause'
    """
    found = []
    for one in entries:
        try:
            when = datetime.datetime.fromtimestamp(one.time).isoformat(" ", "seconds")
        except (ValueError, OverflowError, OSError):
            when = "?"
        rank = f"rank {one.rank:<4}" if ranks else ""
        found.append(f"{when}  step {one.step:<7} {rank}{one.who:<9} {plain(one.words)}")
    return found
