"""What `tensight profile` costs against torch.profiler with the same options, and how a large trace is read.

    python benchmarks/profile_cost.py [--trace-megabytes 500] [--rounds 10]

The same training goes on in one process, and windows of its steps take turns: as it is, under torch.profiler
(record_shapes, profile_memory, with_flops, and its step() after each step, since we mark steps too), under the traced
window of `tensight profile`, and under torch.profiler again, which tells how far apart equal things are here. The
training's own processor seconds of a step are compared window by window, so that a busy machine does not decide.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

STEPS = 20  # of a window
WAYS = ("plain", "torch", "tensight", "torch again")


def cost(rounds: int) -> bool:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    import torch
    from torch import nn

    from tensight.frameworks.timing import Plan
    from tensight.frameworks.torch.timing import TorchTiming

    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = (module for _ in range(8) for module in (nn.Linear(256, 256), nn.ReLU()))
    model = nn.Sequential(nn.Linear(128, 256), *layers, nn.Linear(256, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(128, 128), torch.randint(0, 8, (128,))

    def step() -> float:
        began = time.thread_time()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        return time.thread_time() - began

    def plain() -> list[float]:
        return [step() for _ in range(STEPS)]

    def active(number: int) -> torch.profiler.ProfilerAction:
        return torch.profiler.ProfilerAction.RECORD

    def profiled() -> list[float]:
        marks = []
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            schedule=active,
            record_shapes=True,
            profile_memory=True,
            with_flops=True,
        ) as profiler:
            for _ in range(STEPS):
                began = time.thread_time()
                step()
                profiler.step()
                marks.append(time.thread_time() - began)
        return marks

    def ours() -> list[float]:
        plan = Plan(warm=1, clock=1, trace=STEPS, locate=0, least_seconds=0.0)
        timing = TorchTiming(plan, go_on=True, failed=_failed)
        timing.attach()
        try:
            marks = [step() for _ in range(STEPS + 3)]
        finally:
            timing.detach()
        traced = [one.step for one in timing.steps.times if one.window == "trace"]
        assert len(traced) == STEPS, "not all steps were traced"
        return [marks[number] for number in traced]

    ways: dict[str, Callable[[], list[float]]] = dict(zip(WAYS, (plain, profiled, ours, profiled)))
    for way in ways.values():
        way()  # the first of each pays for what is made once
    rows: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds):
        for index in range(len(WAYS)):  # in another order each time, so that none is always the one after
            way = WAYS[(index + number) % len(WAYS)]
            rows[way].append(statistics.median(ways[way]()))
    times = {way: statistics.median(a / b for a, b in zip(rows[way], rows["torch"])) for way in WAYS}
    for way in WAYS:
        print(f"{way:<11} {1000 * statistics.median(rows[way]):8.3f} ms a step  {times[way]:.3f} times torch.profiler")
    control = abs(times["torch again"] - 1)
    return times["tensight"] <= 1 + max(0.01, control)


def _failed(where: str, error: BaseException) -> None:
    raise error


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
    parser.add_argument("--rounds", type=int, default=10)
    asked = parser.parse_args()
    read = large_trace(asked.trace_megabytes) if asked.trace_megabytes else True
    return 0 if all([read, cost(asked.rounds)]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
