"""What `tensight ckpt show` and `diff` say."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tensight.compare.checkpoints import Checkpoint, Entry
from tensight.compare.checkpoints.convert import candidates_for, network_part
from tensight.compare.checkpoints.entry import decoded

_CHUNK = 1 << 22
Progress = Callable[[int, int], None]


def show(checkpoint: Checkpoint, *, progress: Progress | None = None, values: bool = False) -> dict[str, Any]:
    """Every tensor with shape, dtype and the shares of NaN, infinite and zero values in it."""
    rows = []
    for number, entry in enumerate(checkpoint.entries.values()):
        stats = entry.stats()
        count = max(stats.count, 1)
        row: dict[str, Any] = {
            "name": entry.name,
            "shape": list(entry.shape),
            "dtype": entry.dtype,
            "trainable": entry.trainable,
            "nan": stats.nan / count,
            "inf": stats.inf / count,
            "zero": stats.zero / count,
            "count": entry.count,
            "nan_count": stats.nan,
            "inf_count": stats.inf,
            "zero_count": stats.zero,
            "min": stats.min,
            "max": stats.max,
            "mean": stats.mean,
            "std": stats.std,
        }
        if values:
            row["values"] = entry.numpy().tolist()
        rows.append(row)
        if progress is not None:
            progress(number + 1, len(checkpoint.entries))
    return {
        "parameters": rows,
        "total": checkpoint.total,
        "format": checkpoint.format,
        "framework": checkpoint.framework or None,
        "values": checkpoint.values,
        "unread": checkpoint.unread,
    }


def diff(a: Checkpoint, b: Checkpoint, *, progress: Progress | None = None) -> dict[str, Any]:
    """What changed from `a` to `b`, and by how much; names of different frameworks are mapped by rule."""
    pairs, only_a, only_b = paired(a, b)
    found: dict[str, Any] = {
        "changed": [],
        "unchanged": [],
        "only_a": only_a,
        "only_b": only_b,
        "shape_differs": [],
    }
    for number, (name, one, other, shape) in enumerate(pairs):
        if shape != other.shape:
            found["shape_differs"].append({"name": name, "a": list(one.shape), "b": list(other.shape)})
        else:
            row = _row(name, one.renamed(one.name, shape), other)
            if one.name != other.name:
                row["name_b"] = other.name
            if row.pop("same"):
                found["unchanged"].append(name)
            else:
                found["changed"].append(row)
        if progress is not None:
            progress(number + 1, len(pairs))
    return found


def paired(
    a: Checkpoint, b: Checkpoint
) -> tuple[list[tuple[str, Entry, Entry, tuple[int, ...]]], list[str], list[str]]:
    """Tensors that belong together, each with the shape `a`'s has in `b`; and what is in one only."""
    pairs: list[tuple[str, Entry, Entry, tuple[int, ...]]] = []
    left = dict(a.entries)
    right = dict(b.entries)
    whole = {name: entry.shape for name, entry in network_part(a)[0].items()}
    candidates = candidates_for(whole, a.framework, b.framework)
    for name in [name for name in left if name in right]:
        shapes = [target.shape for target in candidates.get(name, ()) if target.name == name]
        shape = right[name].shape if right[name].shape in shapes else left[name].shape
        pairs.append((name, left.pop(name), right.pop(name), shape))
    own_a = {name: entry for name, entry in network_part(a)[0].items() if entry.name in left}
    own_b = {name: entry for name, entry in network_part(b)[0].items() if entry.name in right}
    for name, entry in own_a.items():
        fitting = [t for t in candidates[name] if t.name in own_b]
        best = next((t for t in fitting if own_b[str(t.name)].shape == t.shape), fitting[0] if fitting else None)
        if best is not None and right.pop(own_b[str(best.name)].name, None) is not None:
            pairs.append((entry.name, left.pop(entry.name), own_b[str(best.name)], best.shape))
    order = {name: number for number, name in enumerate(a.entries)}
    pairs.sort(key=lambda pair: order[pair[1].name])
    return pairs, list(left), list(right)


def _row(name: str, one: Entry, other: Entry) -> dict[str, Any]:
    if one.dtype == other.dtype and np.array_equal(one.bytes(), other.bytes()):
        return {"name": name, "same": True}
    x, y = one.held().reshape(-1), other.held().reshape(-1)
    largest = total = squares = size = 0.0
    moved = bad = finite = 0
    for start in range(0, x.size, _CHUNK):
        a = decoded(x[start : start + _CHUNK], one.dtype)
        b = decoded(y[start : start + _CHUNK], other.dtype)
        wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
        a, b = a.astype(wide), b.astype(wide)
        both = np.isfinite(a) & np.isfinite(b)
        bad += int(np.count_nonzero(~both & ~((a == b) | (np.isnan(a) & np.isnan(b)))))
        distance = np.abs(a[both] - b[both])
        largest = max(largest, float(distance.max(initial=0.0)))
        total += float(distance.sum())
        squares += float(np.square(distance).sum())
        size += float(np.square(np.abs(a[both])).sum())
        moved += int(np.count_nonzero(distance))
        finite += distance.size
    row: dict[str, Any] = {
        "name": name,
        "same": one.dtype == other.dtype and not bad and not moved,
        "max_abs": largest,
        "mean_abs": total / finite if finite else 0.0,
        "relative": math.sqrt(squares / size) if size else None,
        "changed_share": (moved + bad) / max(x.size, 1),
    }
    if bad:
        row["became_or_were_not_finite"] = bad
    if one.dtype != other.dtype:
        row["dtype"], row["dtype_b"] = one.dtype, other.dtype
    return row
