"""A look at a batch before the training: samples with their labels, and what is odd about them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from tensight.errors import UsageError
from tensight.frameworks.source import user_source
from tensight.kit.backend import Array, array
from tensight.kit.pictures import png, sketch
from tensight.records.print import BatchSamples, Sample
from tensight.runs.blocks import plain
from tensight.session import prints
from tensight.session.settings import rank

_MOST_COLUMNS = 12


def check_batch(
    batch: Any,
    *,
    classes: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    vocabulary: Sequence[str] | None = None,
    most: int = 4,
    show: bool = True,
) -> BatchSamples:
    """Show samples and labels of a batch (data, labels) in the terminal, and in the page while a session runs.

    Data of shape [N, C, H, W] or [N, H, W, C] is shown as images; strings, or whole numbers with a `vocabulary`, as
    text; the rest as rows of a table. `classes` names the labels.

    >>> found = check_batch((np.array([[1.0], [2.0]]), np.array([0, 1, 1])), show=False)
    >>> found.troubles
    ('2 samples and 3 labels: they do not belong together',)
    """
    data, labels = _split(batch)
    samples = tuple(
        _sample(index, data, labels, classes, columns, vocabulary) for index in range(min(most, _length(data)))
    )
    record = BatchSamples(
        prints.step() or 0,
        time.time(),
        tuple(_shape(item) for item in (data, labels) if item is not None),
        samples,
        tuple(troubles(data, labels, classes)),
        user_source(2),
        rank(),
    )
    if show:
        print(text(record))
    prints.keep(record)
    return record


def check_dataset(dataset: Iterable[Any], batches: int = 20) -> list[str]:
    """What is odd about the first batches: labels in order, one class per batch, the same batch again.

    >>> check_dataset([(np.full([2, 1], k), np.array([k, k])) for k in range(5)])
    ['each of the 5 batches has a single label: the data is sorted and not shuffled']
    """
    from tensight.kit.backend import imported

    found: list[str] = []
    seen: dict[bytes, int] = {}
    labels: list[Array] = []
    start = dataset
    if hasattr(dataset, "create_tuple_iterator"):
        start = next(one for one in imported() if one.name == "mindspore").batches(dataset)
    again = ""
    for number, batch in enumerate(islice(iter(start), batches)):
        data, label = _split(batch)
        key = np.ascontiguousarray(array(data)).tobytes() if not _is_text(data) else repr(data).encode()
        if key in seen and not again:
            again = f"batch {number} holds the same data as batch {seen[key]}"
        seen.setdefault(key, number)
        if label is not None:
            labels.append(array(label).reshape(-1))
    if len(labels) > 1 and all(one.dtype.kind in "iu" for one in labels):
        whole = np.concatenate(labels)
        if len(np.unique(whole)) > 1:
            if all(len(np.unique(one)) == 1 and len(one) > 1 for one in labels):
                found.append(
                    f"each of the {len(labels)} batches has a single label: the data is sorted and not shuffled"
                )
            elif len(whole) > 8 and (np.diff(whole.astype(np.int64)) >= 0).all():
                found.append("the labels come in ascending order: the data is sorted and not shuffled")
    return [*found, again] if again else found


def troubles(data: Any, labels: Any, classes: Sequence[str] | None = None) -> list[str]:
    """What is odd about a batch."""
    found: list[str] = []
    if labels is not None and _length(data) != _length(labels):
        found.append(f"{_length(data)} samples and {_length(labels)} labels: they do not belong together")
    if not _is_text(data):
        values = array(data)
        if values.dtype.kind == "f":
            bad = int((~np.isfinite(values)).sum())
            if bad:
                found.append(f"{bad} values of the data are NaN or Inf")
        if len(values) > 1 and values.size and (values == values[:1]).all() and values.ndim > 2:
            found.append("all samples of the batch are the same")
        if values.ndim == 2 and len(values) > 1 and values.dtype.kind in "fiu":
            still = [column for column in range(values.shape[1]) if (values[:, column] == values[0, column]).all()]
            for column in still[:3]:
                found.append(f"column {column} has the same value ({values[0, column]:g}) in all samples")
    if labels is not None and not _is_text(labels):
        wanted = array(labels)
        if classes is not None and wanted.dtype.kind in "iu" and wanted.size:
            low, high = int(wanted.min()), int(wanted.max())
            if low < 0 or high >= len(classes):
                found.append(
                    f"labels go from {low} to {high}, but there are {len(classes)} classes (0 to {len(classes) - 1})"
                )
        if wanted.size > 4 and len(np.unique(wanted)) == 1 and wanted.dtype.kind in "iu":
            found.append(f"all {wanted.size} labels of the batch are {wanted.reshape(-1)[0]}")
    return found


def text(record: BatchSamples) -> str:
    """Samples for the terminal."""
    lines = [f"batch of {' and '.join(record.shapes)}"]
    for sample in record.samples:
        lines.append(f"[{sample.index}] label {sample.label or '–'}")
        lines.append(sample.text)
    lines.extend(f"! {trouble}" for trouble in record.troubles)
    return "\n".join(lines)


def _sample(
    index: int,
    data: Any,
    labels: Any,
    classes: Sequence[str] | None,
    columns: Sequence[str] | None,
    vocabulary: Sequence[str] | None,
) -> Sample:
    label = "" if labels is None or index >= _length(labels) else _label(labels, index, classes)
    if _is_text(data):
        return Sample(index, "text", label, plain(str(data[index])))
    value = array(data)[index]
    if vocabulary is not None and value.dtype.kind in "iu":
        words = [
            vocabulary[int(one)] if 0 <= int(one) < len(vocabulary) else f"<{int(one)}>" for one in value.reshape(-1)
        ]
        return Sample(index, "text", label, plain(" ".join(map(str, words))))
    low, high = (float(np.nanmin(value)), float(np.nanmax(value))) if value.size else (None, None)
    if value.ndim == 3 and (value.shape[0] in (1, 3, 4) or value.shape[-1] in (1, 3, 4)):
        return Sample(index, "image", label, sketch(value), png(value), low=low, high=high)
    if value.ndim == 2 and min(value.shape) > 4:
        return Sample(index, "image", label, sketch(value[None]), png(value[None]), low=low, high=high)
    flat = value.reshape(-1)
    names = tuple(columns or (f"{number}" for number in range(flat.size)))[:_MOST_COLUMNS]
    row = tuple(float(one) for one in flat[:_MOST_COLUMNS])
    more = f"  … {flat.size - len(row)} more" if flat.size > len(row) else ""
    shown = "  ".join(f"{plain(str(name))}={one:g}" for name, one in zip(names, row)) + more
    kind = "table" if value.ndim == 1 else "values"
    return Sample(index, kind, label, shown, columns=names, row=row, low=low, high=high)


def _label(labels: Any, index: int, classes: Sequence[str] | None) -> str:
    value = labels[index] if _is_text(labels) else array(labels)[index]
    if classes is not None and np.ndim(value) == 0 and 0 <= int(value) < len(classes):
        return plain(f"{int(value)} {classes[int(value)]}")
    return plain(np.array2string(np.asarray(value), threshold=8) if not isinstance(value, str) else value)


def _split(batch: Any) -> tuple[Any, Any]:
    if isinstance(batch, dict):
        names = list(batch)
        wanted = next((name for name in ("label", "labels", "target", "y") if name in batch), None)
        first = next((name for name in names if name != wanted), None)
        if first is None:
            raise UsageError("check_batch: the batch holds no data")
        return batch[first], None if wanted is None else batch[wanted]
    if isinstance(batch, (tuple, list)) and len(batch) >= 2 and not _is_text(batch):
        return batch[0], batch[-1]
    return (batch[0] if isinstance(batch, tuple) and len(batch) == 1 else batch), None


def _is_text(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(one, str) for one in value)


def _length(value: Any) -> int:
    return len(value) if _is_text(value) else len(array(value))


def _shape(value: Any) -> str:
    if _is_text(value):
        return f"{len(value)} texts"
    values = array(value)
    return f"{values.dtype.name}{list(values.shape)}"
