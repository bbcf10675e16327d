"""What `tensight profile` costs against torch.profiler with the same options, and how a large trace is read.

    python benchmarks/profile_cost.py [--trace-megabytes 500] [--rounds 3]

The same training runs three times in processes of its own: as it is, under torch.profiler (record_shapes,
profile_memory, with_flops) for the traced steps, and under `tensight profile` with as many traced steps and nothing
else. Processor seconds of a step are compared, so that a busy machine does not decide.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tensight.profiling import files

TRAINING = """
import json, sys, time
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)
way = sys.argv[1]
layers = (m for _ in range(8) for m in (nn.Linear(256, 256), nn.ReLU()))
model = nn.Sequential(nn.Linear(128, 256), *layers, nn.Linear(256, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(128, 128), torch.randint(0, 8, (128,))
marks = []
profiler = None
for step in range(400):
    if way == "torch" and step == 20:
        profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_flops=True)
        profiler.start()
    began = time.thread_time()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    marks.append(time.thread_time() - began)
    if step == 49 and profiler is not None:
        profiler.stop()
json.dump(marks, open(sys.argv[2], "w"))
"""


def steps(way: str, place: Path, script: Path) -> list[float]:
    target = place / f"{way}.json"
    words = [sys.executable]
    if way == "tensight":
        words += ["-m", "tensight", "profile", "--go-on", "--warm-up", "1", "--steps", "19", "--trace-steps", "30"]
        words += ["--run-dir", str(place / "run")]
    subprocess.run([*words, str(script), way, str(target)], check=True, capture_output=True, timeout=600)
    return json.loads(target.read_text())


def cost(rounds: int) -> bool:
    rows: dict[str, list[float]] = {"plain": [], "torch": [], "tensight": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as place:
            script = Path(place) / "train.py"
            script.write_text(TRAINING)
            for way, found in rows.items():
                taken = steps(way, Path(place), script)[20:50]
                if way == "tensight":  # which steps were traced depends on how long the others took
                    taken = [one.cpu for one in files.profiles(Path(place) / "run")[0].steps if one.window == "trace"]
                found.append(statistics.median(taken))
    best = {way: min(found) for way, found in rows.items()}
    for way, seconds in best.items():
        print(f"{way:<9} {1000 * seconds:8.3f} ms a step  {seconds / best['plain']:.3f} times")
    return best["tensight"] <= 1.05 * best["torch"]


def large_trace(megabytes: int) -> bool:
    from tensight.profiling.trace import summarise

    event = {"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "pid": 1, "tid": 1, "ts": 0, "dur": 2.25}
    event["args"] = {"Input Dims": [[64, 64]] * 3, "Ev Idx": 7}
    head, tail = json.dumps(event).split('"ts": 0')
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "large.json"
        with path.open("w") as file:
            file.write('{"traceEvents": [' + head + '"ts": 0' + tail)
            at = 0
            while file.tell() < megabytes * 1_000_000:
                file.write("".join(f',\n{head}"ts": {at + index}{tail}' for index in range(3, 15_003, 3)))
                at += 15_000
            file.write("]}")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began, cpu = time.perf_counter(), time.process_time()
        told = []
        found = summarise(path, lambda done, size: told.append(done))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(
            f"{path.stat().st_size / 1e6:.0f} MB, {found.events} events: {time.perf_counter() - began:.1f} s "
            f"({time.process_time() - cpu:.1f} s of processor), memory grew by {grown:.1f} MB, "
            f"progress told {len(told)} times"
        )
    return grown < 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace-megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    read = large_trace(asked.trace_megabytes) if asked.trace_megabytes else True
    return 0 if all([read, cost(asked.rounds)]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
