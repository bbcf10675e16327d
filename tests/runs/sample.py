"""A recorded run for the tests of views."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from tensight.records import (
    Coverage,
    Gap,
    Module,
    Network,
    Observation,
    Parameter,
    Part,
    Replay,
    RunEnd,
    Source,
    Stats,
    StepRecord,
    TensorInfo,
    Watchpoint,
)
from tensight.store import Writer
from tensight.testing.store_suite import run_info, sample_finding, sample_hit

STEPS = 10

TENSORS = (
    TensorInfo(0, "output", "encoder.0", "output.0", "model", shape=(2, 3), dtype="float32", type="Linear"),
    TensorInfo(1, "output", "encoder.0", "output.1", "model", dtype="float32"),
    TensorInfo(2, "activation", "encoder.1", "output.0", "model", dtype="float32", type="relu"),
    TensorInfo(3, "weight", "head", "weight", "model", shape=(3,), dtype="bfloat16"),
    TensorInfo(4, "gradient", "head", "weight", "model", shape=(3,), dtype="bfloat16"),
    TensorInfo(5, "output", "head", "output.0", "model", call=1, dtype="float32"),
    TensorInfo(6, "output_gradient", "encoder.0", "output.0", "model", phase="backward"),
)


def stats(value: float, bad: int = 0) -> Stats:
    return Stats(
        4, nan=bad, positive=4 - bad, min=value, max=value + 1, mean=value + 0.5, abs_mean=value + 0.5, std=0.5
    )


def step(number: int, rank: int = 0) -> StepRecord:
    """A step; the gradient of the head has a NaN at step 6."""
    seen = tuple(
        Observation(info.id, order, stats(10.0 * number + info.id + rank, int(info.id == 4 and number == 6)))
        for order, info in enumerate(TENSORS)
    )
    hits = ()
    if number == 6:
        hits = (
            sample_hit(6, 0, rank=rank, order=1, node="encoder.0"),
            sample_hit(6, 4, rank=rank, order=4, node="head", slot="weight", kind="gradient", condition="GE"),
            sample_hit(6, 3, rank=rank, order=3, node="head", slot="weight", kind="weight", error="no_prev"),
        )
    return StepRecord(number, 100.0 + number, 0.1, loss=1.0 if number < 6 else math.nan, observations=seen, hits=hits)


def record_run(folder: Path, rank: int = 0, ranks: int = 1, *, end: bool = True) -> Writer:
    """Write a whole rank of a run."""
    writer = Writer(folder, run_info(rank, ranks))
    modules = tuple(Module(path, "Linear") for path in ("", "encoder", "encoder.0", "encoder.1", "head"))
    writer.network(Network("model", "Net", modules, (Parameter("head.weight", (3,), "bfloat16", module="head"),)))
    writer.part(Part("optimizer", "Adam", "Adam", {"lr": 0.1}))
    for info in TENSORS:
        writer.tensor(info)
    writer.watchpoint(Watchpoint(1, "TO", name="overflow", recommended=True))
    writer.coverage(Coverage(("model",), ("Adam",), tensors=7, watched=7, gaps=(Gap("loss", "none was called"),)))
    for number in range(STEPS):
        writer.step(step(number, rank))
    writer.tensors(6, {0: np.arange(6, dtype=np.float32).reshape(2, 3), 4: np.array([1.5, np.nan, 0.0], np.float32)})
    writer.findings([sample_finding(6, rank=rank), sample_finding(2, "lr_too_high", muted=True, rank=rank)])
    writer.replay(
        Replay(6, "exact", "fork at the hit", source=Source("train.py", 3), facts={"zeros": 3, "x": math.inf})
    )
    if end:
        writer.end(RunEnd("finished", 200.0, 0, STEPS, 1.03, ("something",)))
        writer.close()
    return writer
