"""Large recordings: one process against two workers, on this machine and on Ray: `python benchmarks/scale.py`.

check     a dump of so many gigabytes (`--gigabytes 2`), statistics taken of every tensor and all conditions judged
compare   two sharded checkpoints (`--checkpoints 2`, both together), parameter by parameter

Files are read once before anything is timed, so that all ways find them in memory. The ways take turns, `--rounds`
times, and the best of each is shown, since other programs only ever add time. Starting workers is timed apart from
working. Each way's answer is compared with that of one process, byte by byte. `--write` puts the table into
docs/explanation/scale.md; `--ways one,local` leaves Ray out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "scale.md"
MARKS = ("<!-- table -->\n", "<!-- end of table -->")
WAYS = {"one": (None, None), "local": ("local", 2), "ray": ("ray", 2)}
SHARDS = 32


def make_dump(folder: Path, total: int) -> None:
    """Shards of a dump: two ranks, some steps, one value in a million not finite."""
    random = np.random.default_rng(0)
    each = total // SHARDS // 4
    for shard in range(SHARDS):
        rank, step, layer = shard % 2, shard // 2 % 4, shard // 8
        values = random.standard_normal(each, dtype=np.float32)
        values[::1_000_003] = np.nan
        place = folder / f"rank_{rank}" / "Net" / "0" / str(step)
        place.mkdir(parents=True, exist_ok=True)
        name = f"MatMul.Default_fc{layer}_MatMul-op{layer}.0.0.{1_700_000_000_000_000 + shard}.output.0"
        np.save(place / f"{name}.DefaultFormat.Float32.npy", values)


def make_checkpoints(folder: Path, total: int) -> tuple[Path, Path]:
    """Two sharded checkpoints: every fourth parameter of the second is a little off."""
    random = np.random.default_rng(1)
    count = SHARDS // 2
    each = total // 2 // count // 4
    indexes: list[Path] = []
    for side in "ab":
        places: dict[str, str] = {}
        random = np.random.default_rng(1)
        for shard in range(count):
            values = random.standard_normal((each // 1024, 1024), dtype=np.float32)
            if side == "b" and shard % 4 == 3:
                values *= np.float32(1.001)
            file = f"{side}-{shard:03d}.safetensors"
            save_file({f"layer{shard}.weight": values}, folder / file)
            places[f"layer{shard}.weight"] = file
        indexes.append(folder / f"{side}.safetensors.index.json")
        indexes[-1].write_text(json.dumps({"weight_map": places}))
    return indexes[0], indexes[1]


def work(task: str, way: str, folder: Path) -> dict[str, Any]:
    """One way of one task, in this process; what it found is part of the answer."""
    from tensight.workers import workers_on

    began = time.perf_counter()
    with workers_on(*WAYS[way]) as workers:
        list(workers.map(abs, range(2 * workers.count)))  # so that all of them are there
        ready = time.perf_counter()
        found = _check(folder, workers) if task == "check" else _compare(folder, workers)
        ended = time.perf_counter()
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "start": ready - began,
        "work": ended - ready,
        "cpu": own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime,
        "memory": max(_peak(), children.ru_maxrss * 1024),
        "found": found,
    }


def _peak() -> int:
    """The most memory this process has held: `ru_maxrss` would count that of the process which started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def _check(folder: Path, workers: Any) -> str:
    from tensight.runs import open_run
    from tensight.runs.spreading import prepare
    from tensight.watchpoints import recommended

    prepare(folder / "dump", workers)
    run = open_run(folder / "dump")
    hits = list(run.recheck(list(recommended.watchpoints(first_id=1)), workers=workers))
    return repr((hits, [list(reader.steps) for reader in run.readers.values()]))


def _compare(folder: Path, workers: Any) -> str:
    from tensight.compare import compare

    sides = (folder / f"{side}.safetensors.index.json" for side in "ab")
    return repr(compare(*sides, workers=workers).to_dict())


def measured(task: str, way: str, folder: Path) -> dict[str, Any]:
    """One way in a process of its own, with an empty cache."""
    with tempfile.TemporaryDirectory(prefix="tensight-scale-") as cache:
        own = {**os.environ, "TENSIGHT_CACHE": cache, "OMP_NUM_THREADS": "1", "RAY_ADDRESS": "local"}
        words = [sys.executable, __file__, "--task", task, "--way", way, "--folder", str(folder)]
        done = subprocess.run(words, env=own, stdout=subprocess.PIPE, text=True, check=True, timeout=1800)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def warm(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while piece := file.read(1 << 24):
                    total += len(piece)
    return total


def table(folder: Path, ways: list[str], rounds: int) -> str:
    lines = ["| task | way | bytes | start | work | rate | CPU time | memory | same answer |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for task in ("check", "compare"):
        size = warm(folder / "dump") if task == "check" else sum(p.stat().st_size for p in folder.glob("*.safetensors"))
        rows: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way in ways:
                rows[way].append(measured(task, way, folder))
                print(task, way, {k: v for k, v in rows[way][-1].items() if k != "found"}, file=sys.stderr, flush=True)
        expected = rows[ways[0]][0]["found"]
        for way in ways:
            best = min(rows[way], key=lambda row: float(row["work"]))
            same = all(row["found"] == expected for row in rows[way])
            cpu = "" if way == "ray" else f"{best['cpu']:.1f} s"
            memory = "" if way == "ray" else f"{best['memory'] / 2**20:.0f} MB"
            lines.append(
                f"| {task} | {NAMES[way]} | {size / 1e9:.2f} GB | {best['start']:.1f} s | {best['work']:.1f} s "
                f"| {size / 1e9 / best['work']:.2f} GB/s | {cpu} | {memory} | {'yes' if same else '**no**'} |"
            )
    load = os.getloadavg()[1]
    lines.append("")
    lines.append(
        f"{os.cpu_count()} cores, best of {rounds}; the load of the machine was {load:.1f} at the end "
        "(2 would be the benchmark alone)."
    )
    return "\n".join(lines) + "\n"


def records(rows: int = 300, steps: int = 200) -> str:
    """What one record costs, in CPU time, which other programs hardly change: the ground of the cost model."""
    from tensight.records import Observation, RunEnd, RunInfo, StepRecord, TensorInfo
    from tensight.runs import open_run
    from tensight.stats import statistics
    from tensight.store import Reader, Writer
    from tensight.watchpoints import recommended

    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="tensight-scale-") as place:
        folder = Path(place) / "run"
        writer = Writer(folder, RunInfo(id="run", command=(), started=0.0, framework="torch", framework_version="2"))
        for id in range(rows):
            kind = ("output", "gradient", "weight")[id % 3]
            writer.tensor(TensorInfo(id, kind, f"layer{id // 3}", "weight", "model", shape=(64,), dtype="float32"))
        for step in range(steps):
            seen = tuple(Observation(id, id, statistics(random.standard_normal(64))) for id in range(rows))
            writer.step(StepRecord(step, float(step), 0.1, loss=1.0, observations=seen))
        writer.end(RunEnd("finished", 1.0, 0, steps))
        writer.close()
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        opened = _seconds(lambda: Reader(folder, 0))
        run = open_run(folder)
        judged = _seconds(lambda: run.recheck(list(recommended.watchpoints(first_id=1))))
        written = _seconds(lambda: run.to_parquet(Path(place) / "stats.parquet"))
        packed = (Path(place) / "stats.parquet").stat().st_size
        asked = _seconds(lambda: run.query("select node, max(l2) from stats group by node"))
    count = rows * steps
    return "\n".join(
        [
            f"| one record (of {count:,}) | |",
            "| --- | --- |",
            f"| in a run directory | {size / count:.0f} bytes |",
            f"| in Parquet | {packed / count:.0f} bytes |",
            f"| judged by the recommended conditions | {count / judged:,.0f} a second |",
            f"| written as Parquet | {count / written:,.0f} a second |",
            f"| asked in SQL, Parquet written first | {count / asked:,.0f} a second |",
            f"| opening a rank of {steps} steps | {opened * 1000:.1f} ms |",
        ]
    )


def _seconds(work: Callable[[], object]) -> float:
    """The least CPU time of three."""
    found = []
    for _ in range(3):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


NAMES = {"one": "one process", "local": "two processes", "ray": "Ray, two workers"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.2)
    parser.add_argument("--checkpoints", type=float, default=2.2, metavar="GIGABYTES")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ways", default="one,local,ray")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--records", action="store_true", help="only what one record costs")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        print(json.dumps(work(given.task, given.way, given.folder)))
        return
    if given.records:
        print(records())
        return
    with tempfile.TemporaryDirectory(prefix="tensight-scale-", dir=os.environ.get("TENSIGHT_BENCHMARK_DIR")) as place:
        folder = Path(place)
        total = int(given.gigabytes * 1e9)
        make_dump(folder / "dump", total)
        make_checkpoints(folder, int(given.checkpoints * 1e9))
        warm(folder)
        found = table(folder, given.ways.split(","), given.rounds) + "\n" + records() + "\n"
    print(found)
    if given.write:
        text = PAGE.read_text()
        before, rest = text.split(MARKS[0], 1)
        PAGE.write_text(before + MARKS[0] + found + MARKS[1] + rest.split(MARKS[1], 1)[1])


if __name__ == "__main__":
    main()
