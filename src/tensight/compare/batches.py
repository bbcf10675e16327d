"""One batch for both sides: from a NumPy file, a TFRecord file, a recorded run or a reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tensight.compare.reference import Recorded, is_reference
from tensight.compare.tfrecord import columns
from tensight.errors import FormatError, UsageError
from tensight.runs import open_run
from tensight.store import is_run

Array = np.ndarray[Any, Any]
_RECORDS = (".tfrecord", ".tfrecords")


def batch(path: str | Path, *, rows: int | None = None, step: int | None = None) -> dict[str, Array]:
    """The arrays of a batch by name, so that two programs can be fed the same.

    `.npy` and `.npz` files, TFRecord files of examples (the first `rows`), the inputs of a reference, or those of a
    recorded run that kept them (`tensight run --steps 0`), by default of the first such step.

        x = tensight.batch("batch.npz")["x"]
    """
    path = Path(path)
    if path.is_dir():
        found = _reference(path) if is_reference(path) else _run(path, step)
    elif path.suffix in _RECORDS:
        found = columns(path, rows)
    else:
        found = _numpy(path)
    return found if rows is None else {name: array[:rows] if array.ndim else array for name, array in found.items()}


def _numpy(path: Path) -> dict[str, Array]:
    if path.suffix not in (".npy", ".npz"):
        known = ", ".join((".npy", ".npz", *_RECORDS))
        raise UsageError(f"{path}: a batch is read from {known}, a run or a reference")
    try:
        made = np.load(path, allow_pickle=False)
        if isinstance(made, np.ndarray):
            return {"0": made}
        with made:
            return {name: made[name] for name in made.files}
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}") from None
    except (OSError, ValueError, EOFError) as error:
        raise FormatError(f"{path} cannot be read as a NumPy file: {error}") from error


def _reference(path: Path) -> dict[str, Array]:
    recorded = Recorded(path)
    keys: list[str] = []

    def note(array: Array, dtype: str) -> None:
        keys.append(dtype)
        found[str(len(keys) - 1)] = array

    found: dict[str, Array] = {}
    recorded.tree(recorded.root.arguments, note)
    recorded.tree(recorded.root.keywords, note)
    return found


def _run(path: Path, step: int | None) -> dict[str, Array]:
    if not is_run(path):
        raise UsageError(f"{path} is neither a run nor a reference")
    run = open_run(path)
    reader = run.rank(min(run.readers))
    inputs = {id: info for id, info in reader.tensors.items() if info.kind in ("input", "target")}
    steps = [number for number, ids in sorted(reader.kept.items()) if set(ids) & set(inputs)]
    wanted = step if step is not None else next(iter(steps), None)
    if wanted is None or wanted not in steps:
        said = f"of step {step} " if step is not None else ""
        raise UsageError(f"{path} has kept no input {said}: record it with `tensight run --steps 0`".replace("  ", " "))
    found = {}
    for id, info in inputs.items():
        kept = reader.tensor(wanted, id)
        if kept is not None:
            found[info.slot if info.kind == "input" else "target"] = kept.array
    return found
