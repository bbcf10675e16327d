"""What dumps cost, and how fast they are written and read: `python benchmarks/dump.py [disk] [training] [reading]`.

disk      large tensors written and synced, against the disk's own rate for the same bytes
training  a step of ResNet-18: bare, statistics of every operator, every module's output written asynchronously;
          with `--peers PYTHON` also msprobe, in an environment that has mindstudio-probe and torch
reading   a dump of so many gigabytes (`--gigabytes 4`) opened and checked: rate and largest memory

Bare and dumped processes take turns. Wall time of a busy machine says little: the CPU time of a step stands beside it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
MODES = {
    "statistics of every operator": {"saved_data": "statistic", "input_output": 2},
    "statistics of every operator, inputs too": {"saved_data": "statistic", "input_output": 0},
    "every module's output, asynchronous": {
        "level": "module",
        "input_output": 2,
        "dump_mode": 1,
        "kernels": [r"name-regex(^Default/.+-op\d+$)"],
        "asynchronous": True,
    },
}


def disk(size: int, count: int) -> None:
    """Write and sync `count` tensors of `size` megabytes, plainly and as a dump."""
    from tensight.dump.writing import File, Synchronous

    values = np.random.default_rng(0).standard_normal(size << 17)  # 8 bytes each
    rates: dict[str, list[float]] = {"plain": [], "dump": []}
    for turn in range(6):
        for way in ("plain", "dump") if turn % 2 else ("dump", "plain"):
            with tempfile.TemporaryDirectory(dir=os.environ.get("TENSIGHT_BENCHMARK_DIR")) as place:
                began = time.perf_counter()
                output = Synchronous()
                for number in range(count):
                    path = Path(place) / f"{number}.npy"
                    if way == "plain":
                        with open(path, "wb", buffering=0) as file:
                            file.write(values.data)
                    else:
                        output.put(File(path, values))
                for path in Path(place).iterdir():
                    handle = os.open(path, os.O_RDONLY)
                    os.fsync(handle)
                    os.close(handle)
                rates[way].append(count * values.nbytes / (time.perf_counter() - began) / 1e6)
    best = {way: max(found) for way, found in rates.items()}
    print(
        f"disk       plain {best['plain']:.0f} MB/s, dump {best['dump']:.0f} MB/s: {best['dump'] / best['plain']:.2f}"
    )


def child(mode: str, steps: int, warmup: int) -> None:
    """One training: prints wall and CPU seconds of each step."""
    import torch
    import torch.nn.functional as F

    spec = importlib.util.spec_from_file_location("training", HERE / "programs" / "training.py")
    assert spec is not None
    assert spec.loader is not None
    training = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(training)
    torch.manual_seed(0)
    model = training.resnet18()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = torch.randn(256, 3, 32, 32), torch.randint(0, 10, (256,))
    wall: list[float] = []
    cpu: list[float] = []
    place = tempfile.mkdtemp(dir=os.environ.get("TENSIGHT_BENCHMARK_DIR"))

    def train(around: Any = None) -> None:
        for step in range(steps + warmup):
            began, used = time.perf_counter(), time.process_time()
            rows = torch.arange(step * 64, (step + 1) * 64) % len(x)
            if around is not None:
                around.start(model=model)
            loss = F.cross_entropy(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if around is not None:
                around.stop()
                around.step()
            wall.append(time.perf_counter() - began)
            cpu.append(time.process_time() - used)

    try:
        if mode == "bare":
            train()
        elif mode == "msprobe":
            from msprobe.pytorch import PrecisionDebugger

            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            train(PrecisionDebugger(task="statistics", dump_path=place, level="L1"))
        else:
            import tensight

            wanted = {"iteration": f"{warmup}-{warmup + steps}", **MODES[mode]}
            with tensight.dump(model, optimizer, path=f"{place}/dump", run_dir=f"{place}/run", quiet=True, **wanted):
                train()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print(json.dumps([wall[warmup:], cpu[warmup:]]))


def training(rounds: int, steps: int, peers: str) -> None:
    found: dict[str, list[list[float]]] = {}
    modes = ["bare", *MODES, *(["msprobe"] if peers else [])]
    for _ in range(rounds):
        for mode in modes:
            python = peers if mode == "msprobe" else sys.executable
            command = [python, __file__, "--child", mode, "--steps", str(steps)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=True)
            wall, cpu = json.loads(done.stdout.splitlines()[-1])
            known = found.setdefault(mode, [[], []])
            known[0] += wall
            known[1] += cpu
    bare = [statistics.median(times) for times in found["bare"]]
    for mode in modes:
        wall, cpu = (statistics.median(times) for times in found[mode])
        print(
            f"training   {mode:<42} {wall * 1e3:7.0f} ms ({wall / bare[0]:.2f}), "
            f"CPU {cpu * 1e3:7.0f} ms ({cpu / bare[1]:.2f})"
        )


def reading(gigabytes: float) -> None:
    """Open and check a large dump in a process of its own."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("TENSIGHT_BENCHMARK_DIR")) as place:
        folder = Path(place) / "dump/rank_0/Net/0/0"
        folder.mkdir(parents=True)
        values = np.random.default_rng(0).standard_normal(32 << 20).astype(np.float32)  # 128 MB
        count = max(1, round(gigabytes * 1e9 / values.nbytes))
        for number in range(count):
            np.save(
                folder / f"MatMul.Default_fc{number}_MatMul-op0.0.0.{number + 1}.output.0.DefaultFormat.npy", values
            )
        began = time.perf_counter()
        total = 0
        for path in folder.iterdir():
            with open(path, "rb", buffering=0) as file:
                while piece := file.read(16 << 20):
                    total += len(piece)
        plain = time.perf_counter() - began
        command = [sys.executable, "-m", "tensight", "check", str(Path(place) / "dump"), "--json"]
        began = time.perf_counter()
        environment = {**os.environ, "TENSIGHT_CACHE": f"{place}/cache"}
        subprocess.run(command, env=environment, capture_output=True, check=True, timeout=1200)
        seconds = time.perf_counter() - began
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
        print(
            f"reading    {total / 1e9:.1f} GB in {seconds:.1f} s: {total / 1e9 / seconds:.2f} GB/s "
            f"(only reading it: {total / 1e9 / plain:.2f} GB/s), at most {memory:.2f} GB of memory"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", nargs="*", default=[], help="disk, training, reading; default: all")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--steps", type=int, default=8)
    options.add_argument("--gigabytes", type=float, default=4.0)
    options.add_argument("--peers", default="", metavar="PYTHON")
    options.add_argument("--child", default="", help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.child:
        child(asked.child, asked.steps, 4)
        return
    what = asked.what or ["disk", "training", "reading"]
    if "disk" in what:
        disk(64, 8)
    if "training" in what:
        training(asked.rounds, asked.steps, asked.peers)
    if "reading" in what:
        reading(asked.gigabytes)


if __name__ == "__main__":
    main()
