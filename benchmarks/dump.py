"""What dumps cost, and how fast they are written and read: `python benchmarks/dump.py [disk] [training] [reading]`.

disk      large tensors written and synced, against the disk's own rate for the same bytes
training  a step of ResNet-18: bare, statistics of every operator, every module's output written asynchronously;
          with `--cifar` the network with the stem for small images, which has more to compute and to write;
          with `--msprobe PYTHON` also msprobe on the same selections, in an environment with mindstudio-probe and torch
reading   a dump of so many gigabytes (`--gigabytes 4`) opened and checked: rate and largest memory

Trainings take turns of a few steps, with as many threads as torch takes by itself. Wall time of a busy machine says
little: the CPU time of a step stands beside it, that of the thread that writes included.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

WARM_UP = 14  # steps; the first ten of any run are watched whole, and what looking costs is learnt after them
HERE = Path(__file__).resolve().parent
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}  # see overhead.py
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
MSPROBE = {
    "msprobe: statistics of outputs (L1)": {
        "task": "statistics",
        "level": "L1",
        "statistics": {"scope": [], "list": [], "data_mode": ["output"], "summary_mode": "statistics"},
    },
    "msprobe: statistics, inputs too (L1)": {
        "task": "statistics",
        "level": "L1",
        "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"},
    },
    "msprobe: every module's output (L0 tensor)": {
        "task": "tensor",
        "level": "L0",
        "tensor": {"scope": [], "list": [], "data_mode": ["forward", "output"]},
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


def child(mode: str) -> None:
    """A training that waits for a line with a number of steps, then prints their wall and CPU seconds."""
    import torch
    import torch.nn.functional as F

    spec = importlib.util.spec_from_file_location("training", HERE / "programs" / "training.py")
    assert spec is not None
    assert spec.loader is not None
    training = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(training)
    torch.manual_seed(0)
    model = training.resnet18(small_images="TRAINING_CIFAR" in os.environ)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = torch.randn(256, 3, 32, 32), torch.randint(0, 10, (256,))
    place = Path(tempfile.mkdtemp(prefix="tensight-dump-", dir=os.environ.get("TENSIGHT_BENCHMARK_DIR")))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # other tools talk there

    def train(around: Any = None) -> None:
        step = 0
        used = time.process_time()
        for line in sys.stdin:
            began = time.perf_counter()
            for _ in range(int(line)):
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
                step += 1
            # what a thread does after its block is counted with the next
            now, used = time.process_time() - used, time.process_time()
            answers.write(json.dumps([time.perf_counter() - began, now]) + "\n")
            answers.flush()
        answers.write(json.dumps(_held(place, step)) + "\n")
        answers.flush()

    try:
        if mode == "bare":
            train()
        elif mode in MSPROBE:
            from msprobe.pytorch import PrecisionDebugger

            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            config = place / "config.json"
            config.write_text(json.dumps({"dump_path": f"{place}/dump", "rank": [], "step": [], **MSPROBE[mode]}))
            train(PrecisionDebugger(config_path=str(config)))
        else:
            import tensight

            wanted = {"iteration": "all", **MODES[mode]}
            with tensight.dump(model, optimizer, path=place / "dump", run_dir=place / "run", quiet=True, **wanted):
                train()
    except BrokenPipeError:
        pass  # nobody is left to hear the answer
    finally:
        # a folder may hold gigabytes: nothing interrupts its removal
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        shutil.rmtree(place, ignore_errors=True)


def _held(place: Path, steps: int) -> dict[str, float]:
    """What the dump of a step is: files and megabytes."""
    sizes = [path.stat().st_size for path in (place / "dump").rglob("*") if path.is_file()]
    return {"files": len(sizes) / max(1, steps), "megabytes": sum(sizes) / max(1, steps) / 1e6}


def training(rounds: int, block: int, msprobe: str, cifar: bool) -> None:
    """Trainings that take turns: each is ahead of the others by one block at most."""
    modes = ["bare", *MODES, *(MSPROBE if msprobe else ())]
    running = {
        mode: subprocess.Popen(
            [msprobe if mode in MSPROBE else sys.executable, __file__, "--child", mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **KEEP_MEMORY, **({"TRAINING_CIFAR": "1"} if cifar else {})},
        )
        for mode in modes
    }
    found: dict[str, list[tuple[float, float]]] = {mode: [] for mode in modes}
    held: dict[str, dict[str, float]] = {}
    try:
        for mode in modes:
            _ask(running[mode], WARM_UP)
        for turn in range(rounds):
            for mode in modes if turn % 2 else reversed(modes):
                wall, cpu = _ask(running[mode], block)
                found[mode].append((wall / block, cpu / block))
        for mode in modes:
            held[mode] = _ask(running[mode], None)
    finally:
        _end(running.values())
    bare = [statistics.median(times) for times in zip(*found["bare"])]
    threads = os.environ.get("OMP_NUM_THREADS", "not set")
    print(f"training   {os.cpu_count()} cores, OMP_NUM_THREADS {threads}, load {os.getloadavg()[0]:.1f}")
    for mode in modes:
        wall, cpu = (statistics.median(times) for times in zip(*found[mode]))
        print(
            f"training   {mode:<42} {wall * 1e3:6.0f} ms ({wall / bare[0]:.2f}), CPU {cpu * 1e3:6.0f} ms "
            f"({cpu / bare[1]:.2f}), {held[mode]['files']:6.1f} files, {held[mode]['megabytes']:6.1f} MB a step"
        )


def _end(processes: Iterable[subprocess.Popen[str]]) -> None:
    """Let all trainings end, which remove what they have written; one that does not is killed."""
    processes = list(processes)
    for process in processes:
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.stdin = None
        process.terminate()
    for process in processes:
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _ask(process: subprocess.Popen[str], steps: int | None) -> Any:
    """Let a training do so many steps, or end it; its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    if steps is None:
        process.stdin.close()
        process.stdin = None
    else:
        process.stdin.write(f"{steps}\n")
        process.stdin.flush()
    return json.loads(process.stdout.readline())


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
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--steps", type=int, default=4, help="of a turn")
    options.add_argument("--gigabytes", type=float, default=4.0)
    options.add_argument("--msprobe", default="", metavar="PYTHON")
    options.add_argument("--cifar", action="store_true")
    options.add_argument("--child", default="", help=argparse.SUPPRESS)
    asked = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # tidied up as after Ctrl-C
    if asked.child:
        child(asked.child)
        return
    what = asked.what or ["disk", "training", "reading"]
    if "disk" in what:
        disk(64, 8)
    if "training" in what:
        training(asked.rounds, asked.steps, asked.msprobe, asked.cifar)
    if "reading" in what:
        reading(asked.gigabytes)


if __name__ == "__main__":
    main()
