"""Where values left their range: counted for each tensor and step."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tensight.runs.query import StepsWanted
from tensight.runs.words import paragraph, table, within
from tensight.store import Reader

LIMIT = 65500.0
"""Beyond this float16 has little room left."""
_SHOWN = 50


class OverflowRow(msgspec.Struct, frozen=True):
    """One tensor over all steps: in which it held NaN, infinities, or values beyond the limit."""

    rank: int
    node: str
    op: str
    slot: str
    kind: str
    dtype: str
    total: int  # steps in which it was looked at
    nan: int  # of which with NaN
    inf: int
    out_of_range: int
    clean: int
    first: int | None  # the first step with any of these
    steps: tuple[int, ...]  # all of them


class Overflows(Sequence[OverflowRow]):
    """Tensors in order of the step in which they first overflowed; those that never did come last."""

    def __init__(self, rows: Iterable[OverflowRow]) -> None:
        self._rows = sorted(rows, key=lambda row: (row.first is None, row.first or 0))

    def __getitem__(self, place: Any) -> Any:
        return Overflows(self._rows[place]) if isinstance(place, slice) else self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def bad(self) -> Overflows:
        """Only tensors that overflowed."""
        return Overflows(row for row in self._rows if row.first is not None)

    def dicts(self) -> list[dict[str, Any]]:
        return [msgspec.structs.asdict(row) for row in self._rows]

    def to_csv(self, path: str | Path) -> Path:
        """Write the summary as a CSV file."""
        names = OverflowRow.__struct_fields__
        with open(path, "w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(names)
            for row in self.dicts():
                rows.writerow([_cell(row[name]) for name in names])
        return Path(path)

    def __repr__(self) -> str:
        return f"<Overflows: {len(self.bad)} of {len(self)} tensors>"

    def _repr_html_(self) -> str:
        names = ("rank", "node", "op", "slot", "total", "nan", "inf", "out_of_range", "first")
        rows = [[getattr(row, name) for name in names] for row in self._rows[:_SHOWN]]
        more = f"{len(self) - _SHOWN} more" if len(self) > _SHOWN else ""
        return table(names, rows) + (paragraph(more) if more else "")


def overflows(readers: Iterable[Reader], *, limit: float = LIMIT, step: StepsWanted = None) -> Overflows:
    """Summary of overflow for each tensor over steps and ranks."""
    found = []
    wanted = step if step is None or isinstance(step, (int, range)) else frozenset(step)
    for reader in readers:
        counts: dict[int, list[int]] = {}  # looked at, with NaN, with infinities, beyond the limit, clean
        steps: dict[int, dict[int, None]] = {}
        for number in reader.steps.numbers:
            if not within(number, wanted):
                continue
            for one in reader.steps.at(number).observations:
                stats = one.stats
                known = counts.setdefault(one.tensor, [0, 0, 0, 0, 0])
                beyond = any(abs(end) > limit for end in (stats.min, stats.max) if end is not None)
                known[0] += 1
                known[1] += bool(stats.nan)
                known[2] += bool(stats.inf)
                known[3] += beyond
                known[4] += not (stats.bad or beyond)
                if stats.bad or beyond:
                    steps.setdefault(one.tensor, {}).setdefault(number)
        for id, numbers in counts.items():
            info = reader.tensors[id]
            bad = tuple(steps.get(id, ()))
            total, nan, inf, outside, clean = numbers
            found.append(
                OverflowRow(
                    reader.rank,
                    info.node,
                    info.op,
                    info.slot,
                    info.kind,
                    info.dtype,
                    total,
                    nan,
                    inf,
                    outside,
                    clean,
                    bad[0] if bad else None,
                    bad,
                )
            )
    return Overflows(found)


def _cell(value: Any) -> Any:
    """A value that a spreadsheet shows and does not run: names come from models.

    >>> _cell("=1+1"), _cell((1, 2))
    ("'=1+1", '1 2')
    """
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" else value
