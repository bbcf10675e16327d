"""Tables of operators that MindSpore's profiler writes. Needs no MindSpore: files of elsewhere are read too."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path

from tensight.errors import FormatError
from tensight.records.timing import OperatorTime

CPU = "cpu_op_detail_info_*.csv"
DEVICE = "op_statistic.csv"  # beside the CPU's table where there is an accelerator
TRACE = "trace_view.json"
MOST_BYTES = 256 << 20


def operators(path: Path) -> tuple[OperatorTime, ...]:
    """The operators in a table of either kind, the costliest first."""
    if path.stat().st_size > MOST_BYTES:
        raise FormatError(f"{path} has more than {MOST_BYTES:,} bytes: it is no table of operators")
    with path.open(encoding="utf-8", errors="replace", newline="") as text:
        try:
            rows = list(_rows(csv.DictReader(text)))
        except (KeyError, TypeError, ValueError, csv.Error) as error:
            raise FormatError(
                f"{path} is no table of operators of MindSpore's profiler, or is damaged: {error}"
            ) from None
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _rows(reader: csv.DictReader[str]) -> Iterator[OperatorTime]:
    """
    >>> table = ["op_type,op_name,op_occurrences,op_total_time(ms)", "MatMul,MatMul-op0,15,619.3"]
    >>> row = next(_rows(csv.DictReader(table)))
    >>> row.name, row.shapes, row.calls, row.seconds
    ('MatMul', 'MatMul-op0', 15, 0.6193)
    """
    device = "OP Type" in (reader.fieldnames or ())
    for row in reader:
        if device:
            name, detail, calls = row["OP Type"], row.get("Core Type") or "", row["Count"]
            seconds = float(row["Total Time(us)"]) / 1e6
        else:
            name, detail, calls = row["op_type"], row["op_name"], row["op_occurrences"]
            seconds = float(row["op_total_time(ms)"]) / 1e3
        if not math.isfinite(seconds) or seconds < 0:
            raise ValueError(f"{name[:80]!r} takes {seconds} seconds")
        if not 0 <= (count := int(calls)) < 2**53:
            raise ValueError(f"{name[:80]!r} is called {calls[:40]} times")
        yield OperatorTime(name[:300], shapes=detail[:300], calls=count, seconds=seconds, total=seconds)
