"""Dumps, runs and checkpoints of some size, with something to find in each rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tensight.records import Module, Network, Observation, RunEnd, StepRecord, TensorInfo
from tensight.stats import statistics
from tensight.store import Writer
from tensight.testing.store_suite import run_info
from tests.dump.makers import npy

Array = np.ndarray[Any, Any]
LAYERS = 4


def dump(folder: Path, ranks: int = 2, steps: int = 3, values: int = 500) -> Path:
    """A dump of MindSpore: one layer of one rank holds a NaN from its own step on."""
    random = np.random.default_rng(0)
    for rank in range(ranks):
        for step in range(steps):
            for layer in range(LAYERS):
                array = random.standard_normal((values, 3)).astype(np.float32)
                if rank == ranks - 1 and layer == 2 and step >= 1:
                    array[3, 1] = np.nan
                if layer == 3:
                    array *= 1e4
                name = f"MatMul.Default_fc{layer}_MatMul-op{layer}.output.0"
                npy(folder, name, array, rank=rank, step=step, time=layer)
    return folder


def run(folder: Path, ranks: int = 2, steps: int = 4, *, shift: float = 0.0, values: int = 400) -> Path:
    """A run of some ranks with every tensor kept; `shift` is added to the last layer of the last step."""
    for rank in range(ranks):
        random = np.random.default_rng(rank)
        writer = Writer(folder, run_info(rank, ranks))
        modules = tuple(Module(path, "Linear") for path in ("", *(f"fc{layer}" for layer in range(LAYERS))))
        writer.network(Network("model", "Net", modules))
        infos = [
            TensorInfo(layer, "output", f"fc{layer}", "output.0", "model", shape=(values,), dtype="float32")
            for layer in range(LAYERS)
        ]
        for info in infos:
            writer.tensor(info)
        for step in range(steps):
            arrays = {info.id: random.standard_normal(values).astype(np.float32) for info in infos}
            if step == 1:
                arrays[1][0] = np.inf
            if step == steps - 1:
                arrays[LAYERS - 1] += np.float32(shift)
            seen = tuple(Observation(id, id, statistics(array)) for id, array in arrays.items())
            writer.step(StepRecord(step, 100.0 + step, 0.1, loss=1.0 / (1 + step), observations=seen))
            writer.tensors(step, arrays)
        writer.end(RunEnd("finished", 200.0, 0, steps))
        writer.close()
    return folder


def checkpoints(folder: Path, values: int = 600) -> tuple[Path, Path]:
    """Two files of parameters: one is equal, one rounded, one another, one turned over, one of another shape."""
    random = np.random.default_rng(5)
    arrays = {name: random.standard_normal((20, values // 20)).astype(np.float32) for name in "abcde"}
    others = {name: array.copy() for name, array in arrays.items()}
    others["b"] *= np.float32(1 + 1e-7)
    others["c"] += np.float32(0.5)
    others["d"] = np.ascontiguousarray(others["d"][::-1])
    others["e"] = np.ascontiguousarray(others["e"].T)
    paths = folder / "a.safetensors", folder / "b.safetensors"
    for path, found in zip(paths, (arrays, others)):
        save_file({f"net.{name}.weight": array for name, array in found.items()}, path)
    return paths
