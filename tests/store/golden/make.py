"""Makes the golden run of the format that is current:

    python -m tests.store.golden.make

Run it once for each new format version, and commit the folder `v<version>` it makes. Folders of earlier versions are
never made again: they prove that old runs stay readable.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from tensight.records import (
    Coverage,
    Gap,
    Module,
    Network,
    Parameter,
    Part,
    Replay,
    RunEnd,
    RunInfo,
    Source,
    StepRecord,
    TensorInfo,
    Watchpoint,
)
from tensight.store import FORMAT_VERSION, Writer
from tensight.testing.store_suite import sample_finding, sample_hit, sample_step

HERE = Path(__file__).parent
STEPS = 260

INFO = RunInfo("golden-1", ("train.py",), 1.5, "torch", "2.13.0", "3.11", "linux", "0.1.0", 0, 2, 1234, "/home/me")
NETWORK = Network(
    "model",
    "Net",
    (Module("", "Net"), Module("fc", "Linear", source=Source("train.py", 3, "fc = Linear(2, 3)"))),
    (Parameter("fc.weight", (2, 3), "bfloat16", module="fc", optimizer="Adam"),),
)
PART = Part("optimizer", "Adam", "Adam", {"lr": 0.1, "amsgrad": False}, parameters=("model:fc.weight",))
TENSORS = {id: TensorInfo(id, "weight", "fc", f"weight.{id}", "model", dtype="bfloat16") for id in range(7)}
WATCHPOINT = Watchpoint(1, "TL", {"max_gt": 100.0}, "gradient:*", "large")
FINDINGS = [sample_finding(since_step=250)]
REPLAY = Replay(250, "exact", "fork at the hit", operator="aten.sqrt", facts={"zeros": 3})
COVERAGE = Coverage(("model",), ("Adam",), tensors=7, watched=6, gaps=(Gap("scaler", "there is none"),))
CRASH = {"title": "ValueError: no", "line": 12}
END = RunEnd("failed", 9.5, 1, STEPS, 1.03, (), "nothing was left out")
KEPT = {0: np.array([1.5, np.nan, -0.0], dtype=np.float32), 3: np.arange(6, dtype=np.int64).reshape(2, 3)}


def step(number: int) -> StepRecord:
    """A step as it was written."""
    return sample_step(number, hits=(sample_hit(number),) if number in (30, 250) else ())


def make(folder: Path) -> None:
    """Write the golden run."""
    writer = Writer(folder, INFO, segment_bytes=16_384, retention_bytes=260_000)
    writer.network(NETWORK)
    writer.part(PART)
    for info in TENSORS.values():
        writer.tensor(info)
    writer.watchpoint(WATCHPOINT)
    writer.watchpoint(Watchpoint(2, "TO"))
    writer.watchpoint_removed(2)
    for number in range(STEPS):
        writer.step(step(number))
    writer.tensors(250, KEPT)
    writer.findings(FINDINGS)
    writer.replay(REPLAY)
    writer.coverage(COVERAGE)
    writer.crash(CRASH)
    writer.end(END)
    writer.close()
    other = Writer(folder, RunInfo("golden-1", ("train.py",), 1.5, rank=1, ranks=2, pid=1235))
    other.step(step(0))  # killed: neither closed nor ended


if __name__ == "__main__":
    target = HERE / f"v{FORMAT_VERSION}"
    shutil.rmtree(target, ignore_errors=True)
    make(target)
    print(f"made {target}")
