"""What was recorded as Parquet files: one row for each observation, step or hit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tensight.errors import MissingExtra, RunError, UsageError
from tensight.files import replacing
from tensight.store import Reader

if TYPE_CHECKING:
    from tensight.runs.run import Run

Row = dict[str, Any]
_ROWS = 50_000  # in one group of a file; no more are held in memory
_COUNTS = ("count", "nan", "pos_inf", "neg_inf", "zero", "negative", "positive")
_NUMBERS = ("min", "max", "mean", "abs_mean", "std", "l2")
_CHANGES = ("abs_mean", "abs_max", "before_abs_mean", "moved", "equal")

# table → its columns and their types
TABLES: dict[str, dict[str, str]] = {
    "stats": {
        **dict.fromkeys(("step", "rank"), "int64"),
        **dict.fromkeys(("network", "node", "slot", "kind", "type", "dtype", "op", "phase"), "string"),
        **dict.fromkeys(("call", "micro", "order"), "int64"),
        "shape": "string",
        **dict.fromkeys(_COUNTS, "int64"),
        **dict.fromkeys(_NUMBERS, "float64"),
        **{f"change_{name}": "int64" if name in ("moved", "equal") else "float64" for name in _CHANGES},
    },
    "steps": {
        **dict.fromkeys(("step", "rank"), "int64"),
        **dict.fromkeys(("time", "seconds", "loss"), "float64"),
        "micro": "int64",
        "scalars": "string",
    },
    "hits": {
        **dict.fromkeys(("step", "rank", "watchpoint"), "int64"),
        **dict.fromkeys(("condition", "kind", "node", "slot", "error", "actual", "threshold"), "string"),
    },
}


def export(run: Run, path: str | Path, table: str = "stats") -> int:
    """Write a table of a run ('stats', 'steps' or 'hits') as a Parquet file; returns how many rows it has.

    Rows come in order of step, rank and execution. The file appears whole or not at all. Extremes of integers beyond
    2**53 are rounded, as float64 holds them.
    """
    if table not in TABLES:
        raise UsageError(f"there is no table {table[:80]!r}: a run has {', '.join(TABLES)}")
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra("pyarrow", "sql", "Parquet") from error
    schema = pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in TABLES[table].items()])
    target = Path(path)
    count = 0
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as new, pyarrow.parquet.ParquetWriter(new, schema, compression="zstd") as file:
            for rows in _groups(_MAKERS[table](list(run.readers.values()))):
                columns = {name: [row[name] for row in rows] for name in TABLES[table]}
                file.write_table(pyarrow.table(columns, schema=schema))
                count += len(rows)
    except OSError as error:
        raise RunError(f"{target} cannot be written: {error.strerror or error}") from error
    return count


def _groups(rows: Iterator[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    for row in rows:
        group.append(row)
        if len(group) == _ROWS:
            yield group
            group = []
    if group:
        yield group


def _steps_of(readers: Sequence[Reader]) -> Iterator[tuple[int, Reader]]:
    for number in sorted({number for reader in readers for number in reader.steps.numbers}):
        for reader in readers:
            if reader.steps.has(number):
                yield number, reader


def _stats(readers: Sequence[Reader]) -> Iterator[Row]:
    for number, reader in _steps_of(readers):
        for seen in reader.steps.at(number).observations:
            info = reader.tensors.get(seen.tensor)
            if info is None or seen.error is not None:
                continue
            stats, change = seen.stats, seen.stats.change
            yield {
                "step": number,
                "rank": reader.rank,
                "network": _text(info.network),
                "node": _text(info.node),
                "slot": _text(info.slot),
                "kind": info.kind,
                "type": _text(info.type),
                "dtype": _text(info.dtype),
                "op": _text(info.op),
                "phase": seen.phase,
                "call": info.call,
                "micro": seen.micro,
                "order": seen.order,
                "shape": "x".join(map(str, info.shape if seen.shape is None else seen.shape)),
                **{name: getattr(stats, name) for name in _COUNTS},
                **{name: _number(getattr(stats, name)) for name in _NUMBERS},
                **{f"change_{name}": None if change is None else getattr(change, name) for name in _CHANGES},
            }


def _steps(readers: Sequence[Reader]) -> Iterator[Row]:
    for number, reader in _steps_of(readers):
        head = reader.steps.head(number)
        yield {
            "step": number,
            "rank": reader.rank,
            "time": head.time,
            "seconds": head.seconds,
            "loss": _number(head.loss),
            "micro": head.micro,
            "scalars": _json(dict(head.scalars)),
        }


def _hits(readers: Sequence[Reader]) -> Iterator[Row]:
    for number, reader in _steps_of(readers):
        for hit in reader.steps.head(number).hits:
            yield {
                "step": number,
                "rank": reader.rank,
                "watchpoint": hit.watchpoint,
                "condition": hit.condition,
                "kind": hit.kind,
                "node": _text(hit.node),
                "slot": _text(hit.slot),
                "error": hit.error,
                "actual": _json(dict(hit.actual)),
                "threshold": _json(dict(hit.threshold)),
            }


_MAKERS: dict[str, Callable[[Sequence[Reader]], Iterator[Row]]] = {"stats": _stats, "steps": _steps, "hits": _hits}


def _number(value: float | int | None) -> float | None:
    return None if value is None else float(value)


def _text(value: str) -> str:
    """Text that any reader takes: names come from models, and may hold what is no UTF-8."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def _json(value: Any) -> str:
    return _text(json.dumps(msgspec.to_builtins(value), default=str))
