"""The metrics that MindSpore's SummaryCollector keeps of an evaluation: where mindoptimizer found a trial's result."""

from __future__ import annotations

import json
from pathlib import Path

from tensight.compare.tfrecord import records
from tensight.errors import FormatError
from tensight.store.protobuf import fields

_EVALUATION = 7  # of a LineageEvent
_METRIC = 2  # of an EvaluationLineage: JSON


def metric(folder: Path, name: str) -> float | None:
    """The last value of a metric in a summary folder; None where nothing was kept, or nothing that can be read."""
    wanted = name.lower()
    found = None
    for path in sorted(folder.glob("*_lineage")):
        try:
            for record in records(path):
                for key, value in _metrics(record).items():
                    if key.lower() == wanted and isinstance(value, (int, float)):
                        found = float(value)
        except (FormatError, OSError):
            continue  # a file that is still written may end anywhere
    return found


def _metrics(record: bytes) -> dict[str, object]:
    """
    >>> from tensight.store.protobuf import field
    >>> _metrics(field(_EVALUATION, field(_METRIC, b'{"Accuracy": 0.9}'))), _metrics(b"")
    ({'Accuracy': 0.9}, {})
    """
    try:
        for number, body in fields(memoryview(record)):
            if number == _EVALUATION and isinstance(body, memoryview):
                for inner, text in fields(body):
                    if inner == _METRIC and isinstance(text, memoryview):
                        found = json.loads(bytes(text))
                        return found if isinstance(found, dict) else {}
    except (ValueError, IndexError):
        return {}
    return {}
