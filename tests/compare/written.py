"""Recordings written by hand: a chain of layers whose numbers part from one layer on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tensight.records import Module, Network, Observation, RunEnd, StepRecord, TensorInfo
from tensight.stats import statistics
from tensight.store import Writer
from tensight.testing.store_suite import run_info

Array = np.ndarray[Any, Any]


def chain(
    folder: Path,
    *,
    wrong_from: int | None = None,
    layers: int = 40,
    steps: int = 3,
    prefix: str = "layer",
    keep: bool = True,
    rank: int = 0,
    ranks: int = 1,
    part: slice = slice(None),
) -> Path:
    """A run; from layer `wrong_from` on outputs are half a percent larger. `part` is what a rank sees of a batch."""
    writer = Writer(folder, run_info(rank, ranks))
    names = [f"{prefix}{number}" for number in range(layers)]
    writer.network(Network("model", "Net", (Module("", "Net"), *(Module(name, "Linear") for name in names))))
    for number, name in enumerate(names):
        writer.tensor(
            TensorInfo(number, "output", name, "output.0", "model", shape=(8, 4), dtype="float32", type="Linear")
        )
    random = np.random.RandomState(0)
    for step in range(steps):
        arrays: dict[int, Array] = {}
        for number in range(layers):
            values = random.randn(8, 4).astype(np.float32)
            if wrong_from is not None and number >= wrong_from:
                values = values * np.float32(1.005)
            arrays[number] = values[part].copy()
        seen = tuple(Observation(number, number, statistics(array)) for number, array in arrays.items())
        loss = 2.0 - 0.1 * step + (0.01 if wrong_from is not None else 0.0)
        writer.step(StepRecord(step, float(step), 0.1, loss=loss, observations=seen))
        if keep:
            writer.tensors(step, arrays)
    writer.end(RunEnd("finished", 9.0, 0, steps))
    writer.close()
    return folder
