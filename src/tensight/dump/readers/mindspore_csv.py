"""MindSpore's statistic.csv: statistics without values, or beside them."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tensight.dump import layout
from tensight.dump.readers.base import Dumped, Found, Tree, numbered, rank_of
from tensight.dump.readers.mindspore_names import describe
from tensight.dump.readers.mindspore_npy import Names, rank_names
from tensight.records import Stats

_MOST_BYTES = 4 << 30
_MOST_CELL = 1 << 20


def read(tree: Tree, found: Found) -> Iterator[Dumped]:
    names: dict[int, Names] = {}
    csv.field_size_limit(_MOST_CELL)
    for folder, files in tree.all():
        iteration = numbered(folder.name)
        if layout.STATISTICS not in files or iteration is None:
            continue
        path = folder / layout.STATISTICS
        if files[layout.STATISTICS] > _MOST_BYTES:
            found.trouble(f"{tree.name(path)} is larger than any statistics are and was left out")
            continue
        rank = rank_of(tree.root, folder, "rank_")
        if rank not in names:
            names[rank] = rank_names(tree, found, rank)
        tree.visit.at(path, files[layout.STATISTICS])
        yield from _rows(path, tree, found, rank, iteration, names[rank])


def _rows(path: Path, tree: Tree, found: Found, rank: int, iteration: int, names: Names) -> Iterator[Dumped]:
    bad = 0
    first = ""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            rows = csv.DictReader(file)
            if rows.fieldnames is None or not {"Op Type", "Op Name", "IO", "Slot"} <= set(rows.fieldnames):
                found.trouble(f"{tree.name(path)} does not begin with the columns of statistic.csv")
                return
            for row in rows:
                try:
                    yield _row(row, rank, iteration, path.parent.parent.parent.name, names)
                except (ValueError, KeyError, TypeError, OverflowError) as error:
                    bad += 1
                    first = first or f"line {rows.line_num}: {str(error)[:80]}"
    except (OSError, csv.Error) as error:
        found.trouble(f"{tree.name(path)} cannot be read: {error}")
    if bad:
        found.trouble(f"{tree.name(path)}: {bad} rows are damaged and were left out, the first {first}")


def _row(row: Mapping[str, str], rank: int, iteration: int, network: str, names: Names) -> Dumped:
    if None in row or None in row.values():
        raise ValueError("it has too few or too many cells")
    name, type, io = row["Op Name"], row["Op Type"], row["IO"]
    slot = int(row["Slot"])
    if io not in ("input", "output") or slot < 0:
        raise ValueError(f"{io!r} {slot} is no place of a tensor")
    shape = tuple(int(one) for one in re.findall(r"\d{1,18}", row.get("Shape") or ""))
    full = names.find(name)
    known = names.infos.get((full, io, slot))
    dtype = (row.get("Data Type") or "").lower()
    if known is not None:
        info = msgspec.structs.replace(known, shape=shape)
    else:
        info = describe(full, type, io, slot, shape, dtype, network, names.sources.get(full))
    return Dumped(rank, iteration, float(row.get("Timestamp") or 0), info, None, _stats(row, shape), full)


def _stats(row: Mapping[str, str], shape: tuple[int, ...]) -> Stats:
    count = _count(row, "Count")
    if count is None:
        count = math.prod(shape)
    largest, smallest = _number(row, "Max Value"), _number(row, "Min Value")
    nan, above, below = (_count(row, f"{word} Count") for word in ("NaN", "Positive Inf", "Negative Inf"))
    # without the counts an extreme that is not finite still tells that there is one such value
    extremes = [one for one in (largest, smallest) if one is not None]
    nan = int(any(math.isnan(one) for one in extremes)) if nan is None else nan
    above = int(math.inf in extremes) if above is None else above
    below = int(-math.inf in extremes) if below is None else below
    return Stats(
        count=max(count, nan + above + below),
        nan=nan,
        pos_inf=above,
        neg_inf=below,
        zero=_count(row, "Zero Count") or 0,
        negative=_count(row, "Negative Zero Count") or 0,
        positive=_count(row, "Positive Zero Count") or 0,
        min=_finite(smallest),
        max=_finite(largest),
        mean=_finite(_number(row, "Avg Value")),
        l2=_finite(_number(row, "L2Norm Value")),
    )


def _number(row: Mapping[str, str], column: str) -> float | None:
    text = (row.get(column) or "").strip()
    return float(text) if text and text.lower() != "null" else None


def _count(row: Mapping[str, str], column: str) -> int | None:
    text = (row.get(column) or "").strip()
    if not text or text.lower() == "null":
        return None
    number = int(text)
    if not 0 <= number < 1 << 62:
        raise ValueError(f"{column} is {text[:40]}")
    return number


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
