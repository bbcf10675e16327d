"""What `SummaryCollector` writes: one JSON object a line, readable by anything; and the same for TensorBoard."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from tensight.errors import MissingExtra, UsageError
from tensight.kit.backend import Array

FILE = "summary.jsonl"


class SummaryWriter:
    """Appends lines to `summary.jsonl`; NaN and infinities are the strings 'nan', 'inf', '-inf'."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = open(folder / FILE, "a", encoding="utf-8")  # noqa: SIM115

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self._line({"step": step, "scalars": dict(values)})

    def histograms(self, step: int, values: Mapping[str, Array]) -> None:
        self._line({"step": step, "histograms": {name: histogram(value) for name, value in values.items()}})

    def fact(self, name: str, value: Any) -> None:
        """'graph', 'hyper', 'data', 'samples', 'landscape': said once."""
        self._line({name: value})

    def close(self) -> None:
        self._file.close()

    def _line(self, content: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(_wire(content)) + "\n")
        self._file.flush()


class TensorBoardWriter:
    """The same for TensorBoard."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise MissingExtra("tensorboard", "kit", "export for TensorBoard") from None
        self._event, self._summary, self._histogram = Event, Summary, HistogramProto
        self._writer = EventFileWriter(str(folder))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        rows = [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._add(step, rows)

    def histograms(self, step: int, values: Mapping[str, Array]) -> None:
        rows = []
        for name, value in values.items():
            good = np.asarray(value, np.float64).reshape(-1)
            good = good[np.isfinite(good)]
            if good.size:
                counts, edges = np.histogram(good, 30)
                proto = self._histogram(
                    min=float(good.min()),
                    max=float(good.max()),
                    num=float(good.size),
                    sum=float(good.sum()),
                    sum_squares=float((good**2).sum()),
                    bucket_limit=edges[1:].tolist(),
                    bucket=counts.astype(float).tolist(),
                )
                rows.append(self._summary.Value(tag=name, histo=proto))
        self._add(step, rows)

    def fact(self, name: str, value: Any) -> None:
        """Facts have no place in TensorBoard; they stand in `summary.jsonl`."""

    def close(self) -> None:
        self._writer.close()

    def _add(self, step: int, rows: Sequence[Any]) -> None:
        import time

        if rows:
            self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=self._summary(value=rows)))


def histogram(values: Array, bins: int = 30) -> dict[str, Any]:
    """Counts of the finite values, and how many are not.

    >>> histogram(np.array([0.0, 1.0, np.nan]), 2)
    {'edges': [0.0, 0.5, 1.0], 'counts': [1, 1], 'bad': 1}
    """
    flat = np.asarray(values, np.float64).reshape(-1)
    good = flat[np.isfinite(flat)]
    counts, edges = np.histogram(good, bins) if good.size else (np.zeros(0, int), np.zeros(0))
    return {"edges": edges.tolist(), "counts": counts.tolist(), "bad": int(flat.size - good.size)}


def read_summary(folder: str | Path) -> dict[str, Any]:
    """What was collected: 'scalars' {name: [(step, value)]}, 'histograms' the same way, and the facts.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = SummaryWriter(Path(folder)); writer.scalars(1, {"loss": 0.5}); writer.close()
    ...     read_summary(folder)
    {'scalars': {'loss': [(1, 0.5)]}, 'histograms': {}}
    """
    path = Path(folder) / FILE
    if not path.is_file():
        raise UsageError(f"{folder}: there is no {FILE}; give a folder that SummaryCollector has written")
    found: dict[str, Any] = {"scalars": {}, "histograms": {}}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            content = json.loads(line)
        except ValueError:
            continue  # the last line of a training that was killed
        step = content.pop("step", None)
        for kind in ("scalars", "histograms"):
            for name, value in content.pop(kind, {}).items():
                found[kind].setdefault(name, []).append((step, _number(value) if kind == "scalars" else value))
        found.update(content)
    return found


def compare_summaries(folders: Iterable[str | Path]) -> list[dict[str, Any]]:
    """Trainings side by side: one row each with hyper-parameters, facts of the data and the last scalars.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, rate in (("a", 0.1), ("b", 0.2)):
    ...         writer = SummaryWriter(Path(folder) / name); writer.fact("hyper", {"lr": rate})
    ...         writer.scalars(1, {"loss": 1 - rate}); writer.close()
    ...     compare_summaries([Path(folder) / "a", Path(folder) / "b"])
    [{'run': 'a', 'lr': 0.1, 'last loss': 0.9}, {'run': 'b', 'lr': 0.2, 'last loss': 0.8}]
    """
    rows = []
    for folder in folders:
        content = read_summary(folder)
        row: dict[str, Any] = {"run": Path(folder).name}
        for fact in ("hyper", "data", "custom"):
            row.update(content.get(fact, {}))
        for name, points in content["scalars"].items():
            row[f"last {name}"] = points[-1][1]
        rows.append(row)
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a text; what is the same everywhere is left out.

    >>> print(table([{"run": "a", "lr": 0.1, "batch": 4}, {"run": "b", "lr": 0.2, "batch": 4}]))
    run  lr
    a    0.1
    b    0.2
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    shown = [n for n in names if n == "run" or len(rows) == 1 or len({repr(row.get(n)) for row in rows}) > 1]
    cells = [shown, *([_word(row.get(name)) for name in shown] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(shown))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def _number(value: Any) -> float:
    return float(value)


def _wire(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _wire(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_wire(item) for item in value]
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return number if math.isfinite(number) else str(number)
    if isinstance(value, np.integer):
        return int(value)
    return value if isinstance(value, (str, int, bool)) or value is None else str(value)
