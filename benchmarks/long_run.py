"""A training of many small steps: memory, open files, the cost of a step and the size of the run must stay flat.

    python benchmarks/long_run.py --minutes 120

Prints a line for each twentieth of the time. Exit code 1 when, from the first quarter to the last, memory has grown by
more than 10 % and 20 MiB, a file handle more is open, or a step costs more than half again; or when the log has become
larger than `--retention` allows.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from tensight.session import session as sessions
from tensight.session.companions import companions
from tensight.session.session import Session
from tensight.session.settings import Settings
from tensight.session.terminal import Terminal
from tensight.store import Writer

ROWS = 20


class Row(NamedTuple):
    """What one stretch of the run looked like."""

    steps: int
    memory: float  # MiB
    files: int
    cost: float  # microseconds of processor time per step, training included
    size: float  # MiB of the run directory


def main() -> int:
    """Train for a while and judge how it went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--retention", type=int, default=64, metavar="MIB", help="what the log may hold")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="tensight-long-"))
    try:
        rows = trained(base / "run", options.minutes * 60, options.retention << 20, quiet=options.json)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    problems = judged(rows, options.retention)
    if options.json:
        print(json.dumps({"rows": [row._asdict() for row in rows], "problems": problems}))
    else:
        print("\n".join(problems) or "memory, files, cost and size stayed flat")
    return int(bool(problems))


def trained(folder: Path, seconds: float, retention: int, *, quiet: bool) -> list[Row]:
    def writer(*args: Any, **more: Any) -> Writer:
        return Writer(*args, **more, retention_bytes=retention, segment_bytes=max(1 << 16, retention // 16))

    sessions.Writer = writer  # type: ignore[assignment, misc]
    torch.set_num_threads(1)
    session = Session(Settings(run_dir=folder, budget=100), Terminal(io.StringIO()), companions)
    session.start()
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(32, 16)
    y = x.sum(1, keepdim=True)
    rows: list[Row] = []
    steps = 0
    for number in range(ROWS):
        end = time.monotonic() + seconds / ROWS
        before, began = steps, time.process_time()
        while time.monotonic() < end:
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
        spent = 1e6 * (time.process_time() - began) / max(1, steps - before)
        rows.append(Row(steps, _memory(), len(os.listdir("/proc/self/fd")), spent, _size(folder)))
        if not quiet:
            row = rows[-1]
            print(
                f"{number + 1:>2}/{ROWS}  {row.steps:>9} steps  {row.memory:>7.1f} MiB  {row.files:>3} files  "
                f"{row.cost:>7.0f} us a step  run {row.size:>7.2f} MiB",
                flush=True,
            )
    session.finish("finished", script_exit=0)
    return rows


def judged(rows: list[Row], retention: int) -> list[str]:
    quarter = max(1, len(rows) // 4)
    # the first stretch holds what is made once: the kernel, caches, the first ten steps that are watched whole
    first, last = rows[1 : 1 + quarter], rows[-quarter:]
    problems = []

    def middle(part: list[Row], name: str) -> float:
        return statistics.median(getattr(row, name) for row in part)

    grown = middle(last, "memory") - middle(first, "memory")
    if grown > 20 and grown > 0.1 * middle(first, "memory"):
        problems.append(f"memory has grown by {grown:.1f} MiB")
    if middle(last, "files") > middle(first, "files"):
        problems.append("more files are open than at first")
    if middle(last, "cost") > 1.5 * middle(first, "cost"):
        problems.append(f"a step costs {middle(last, 'cost'):.0f} us and at first {middle(first, 'cost'):.0f} us")
    if max(row.size for row in rows) > 1.25 * retention:
        problems.append(f"the run has become {max(row.size for row in rows):.1f} MiB large")
    return problems


def _memory() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


if __name__ == "__main__":
    sys.exit(main())
