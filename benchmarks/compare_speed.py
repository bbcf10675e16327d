"""How fast two recordings are compared, beside reading both with NumPy and summing; and in how much memory.

    python benchmarks/compare_speed.py [--json] [--gigabytes 2] [--rounds 3] [--folder DIR]

Two recordings are written, each with that many gigabytes of kept tensors; every value of the second differs in its last
places. Both ways then read the same files, in processes of their own and by turns; the best time counts. 'memory' is
the largest resident set of the comparing process. The aims are the project's own: at least half the speed, under 1 GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tensight
from tensight.compare.values import stored
from tensight.records import Module, Network, Observation, RunEnd, RunInfo, StepRecord, TensorInfo
from tensight.stats import statistics
from tensight.store import Writer

TENSOR = 1 << 24  # values: 64 MB of float32
TENSORS = 4  # in a step


def record(folder: Path, gigabytes: float, *, other: bool) -> None:
    """A run whose every step keeps four outputs."""
    writer = Writer(folder, RunInfo(id=folder.name, command=("made",), started=0.0, framework="torch"))
    modules = tuple(Module(f"layer{number}", "Linear") for number in range(TENSORS))
    writer.network(Network("model", "Net", (Module("", "Net"), *modules)))
    for number in range(TENSORS):
        info = TensorInfo(number, "output", f"layer{number}", "output.0", "model", shape=(TENSOR,), dtype="float32")
        writer.tensor(info)
    steps = max(1, round(gigabytes * (1 << 30) / (TENSOR * 4 * TENSORS)))
    random = np.random.default_rng(0)
    for step in range(steps):
        arrays = {}
        for number in range(TENSORS):
            values = random.standard_normal(TENSOR, np.float32)
            arrays[number] = np.nextafter(values, np.float32(9)) if other else values
        seen = tuple(Observation(number, number, statistics(array)) for number, array in arrays.items())
        writer.step(StepRecord(step, float(step), 0.1, loss=1.0, observations=seen))
        writer.tensors(step, arrays)
    writer.end(RunEnd("finished", 1.0, 0, steps))
    writer.close()


def summed(folders: list[Path]) -> float:
    """Every kept tensor of both recordings, read and summed by NumPy."""
    total = 0.0
    for folder in folders:
        for file in sorted(folder.rglob("*.safetensors")):
            for tensor in stored(file).values():
                total += float(np.sum(np.fromfile(tensor.path, tensor.dtype, tensor.size, offset=tensor.offset)))
    return total


def once(way: str, folders: list[Path]) -> dict[str, Any]:
    """One way in this process."""
    start = time.perf_counter()
    if way == "sum":
        summed(folders)
    else:
        found = tensight.compare(*folders)
        assert found.verdict == "rounding", found.verdict
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--once", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.once:
        print(json.dumps(once(asked.once[0], [Path(asked.once[1]), Path(asked.once[2])])))
        return
    with tempfile.TemporaryDirectory(prefix="tensight-speed-", dir=asked.folder) as place:
        folders = [Path(place) / "a", Path(place) / "b"]
        for folder in folders:
            record(folder, asked.gigabytes, other=folder.name == "b")
        found: dict[str, list[dict[str, Any]]] = {"sum": [], "compare": []}
        for _ in range(asked.rounds):
            for way, rows in found.items():
                command = [sys.executable, __file__, "--once", way, *map(str, folders)]
                done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
                rows.append(json.loads(done.stdout))
    best = {way: min(row["seconds"] for row in rows) for way, rows in found.items()}
    memory = max(row["memory"] for row in found["compare"])
    result = {
        "gigabytes_each": asked.gigabytes,
        "seconds": best,
        "speed_against_sum": best["sum"] / best["compare"],
        "memory": memory,
        "aims": {"speed_against_sum": 0.5, "memory": 1 << 30},
    }
    if asked.json:
        print(json.dumps(result))
        return
    rate = 2 * asked.gigabytes / best["compare"]
    print(f"two recordings of {asked.gigabytes:g} GB: compared in {best['compare']:.2f} s ({rate:.2f} GB/s),")
    print(f"read and summed by NumPy in {best['sum']:.2f} s: {result['speed_against_sum']:.2f} of its speed (aim 0.5);")
    print(f"largest memory {memory / (1 << 20):.0f} MB (aim under 1024)")


if __name__ == "__main__":
    main()
