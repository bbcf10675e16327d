"""Kill a writing process at random moments, again and again, and read what it left.

    python benchmarks/kills.py --kills 1000

Each round forks a process that records steps, findings and tensors as fast as it can, with segments so small that they
are closed, thinned and dropped all the time, and kills it by SIGKILL while it does. A step counts as acknowledged when
the writer has returned from it. Afterwards every acknowledged step must be readable and no byte may be damaged. In
every second round the run is also read while it is written. The moments come from a seeded generator.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from tensight.errors import TensightError
from tensight.records import Finding, RunInfo, TensorInfo, Where
from tensight.runs import open_run
from tensight.store import Reader, Writer, is_run
from tensight.testing.store_suite import sample_hit, sample_observations, sample_step

PATIENCE = 120.0  # seconds for a child to reach its number of steps, on however busy a machine

SMALL = sample_observations()
LARGE = SMALL * 200  # many pages, so that a kill can come in the middle of the write


@dataclass
class Result:
    """What many kills showed. `lost` and `unreadable` must stay 0."""

    kills: int = 0
    acknowledged: int = 0
    lost: int = 0
    unreadable: int = 0
    torn: int = 0  # files that ended inside a frame; they were cut cleanly
    before_the_first_step: int = 0
    problems: list[str] = field(default_factory=list)


def write_until_killed(folder: Path, acknowledged: mmap.mmap) -> None:
    """The child: record steps until the end comes from outside."""
    info = RunInfo("kills", ("kills.py",), time.time(), pid=os.getpid())
    writer = Writer(folder, info, segment_bytes=200_000, retention_bytes=2_000_000)
    step = 0
    while True:
        if step % 50 == 0:
            writer.tensor(TensorInfo(step, "weight", "fc", "weight"))
        seen = LARGE if step % 25 == 3 else SMALL
        writer.step(sample_step(step, hits=(sample_hit(step),) if step % 40 == 0 else (), observations=seen))
        acknowledged[:8] = (step + 1).to_bytes(8, "little")
        if step % 20 == 0:
            writer.findings([Finding("sample", "none", "", 1.0, step, Where("fc"), "")])
        if step % 30 == 0:
            writer.tensors(step, {0: np.full(100, float(step))})
        step += 1


def kill_once(folder: Path, chance: random.Random, result: Result, *, follow: bool) -> None:
    """One round: fork, let it write, kill it, read what is there."""
    shared = mmap.mmap(-1, 8)
    child = os.fork()
    if child == 0:
        try:
            write_until_killed(folder, shared)
        except BaseException:
            traceback.print_exc()
        os._exit(1)
    target = chance.choice((0, 1, chance.randrange(50), chance.randrange(400)))
    reader: Reader | None = None
    end = time.monotonic() + PATIENCE
    while _steps(shared) < target and time.monotonic() < end:
        if follow:
            reader = _read_along(folder, reader)
    pause = time.perf_counter() + chance.random() * 0.002
    while time.perf_counter() < pause:
        pass
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    result.kills += 1
    steps = _steps(shared)
    result.acknowledged += steps
    if not os.WIFSIGNALED(status) or steps < target:
        result.problems.append(f"the writer ended by itself or stood still at step {steps} of {target}")
    _judge(folder, steps, result)


def _judge(folder: Path, steps: int, result: Result) -> None:
    if not is_run(folder):
        if steps:
            result.unreadable += 1
            result.problems.append("no run is left")
        result.before_the_first_step += 1
        return
    try:
        run = open_run(folder)
        reader = run.rank(0)
        reader.verify()
        if run.ended != "killed" or reader.damage:
            result.problems.append(f"it counts as {run.ended}, damage {reader.damage}")
        found = set(reader.steps.numbers)
        # retention may have dropped steps between the first segment and the newest, never at the end
        dropped = _dropped(folder)
        missing = [step for step in range(steps) if step not in found and not dropped]
        missing += [step for step in range(max(0, steps - 40), steps) if step not in found]
        result.lost += len(missing)
        for step in found:
            if reader.steps.at(step).loss != 1.0 / (step + 1):
                result.problems.append(f"step {step} came back changed")
        for step in reader.kept:
            kept = reader.tensor(step, 0)
            if kept is None or kept.array[0] != step:
                result.problems.append(f"the tensors of step {step} came back changed")
        result.torn += _is_torn(folder)
    except TensightError as error:
        result.unreadable += 1
        result.problems.append(str(error))


def _steps(shared: mmap.mmap) -> int:
    return int.from_bytes(shared[:8], "little")


def _read_along(folder: Path, reader: Reader | None) -> Reader | None:
    if reader is None:
        return Reader(folder) if is_run(folder) else None
    reader.refresh()
    if reader.damage:
        raise reader.damage[0]
    return reader


def _segments(folder: Path) -> list[Path]:
    return sorted((folder / "rank-0").glob("*.log"))


def _dropped(folder: Path) -> bool:
    paths = _segments(folder)
    return len(paths) != int(paths[-1].stem) + 1


def _is_torn(folder: Path) -> bool:
    from tensight.store.frame import PREAMBLE, Frame, scan

    data = _segments(folder)[-1].read_bytes()
    end = PREAMBLE.size
    for frame in scan(data[PREAMBLE.size :], PREAMBLE.size):
        assert isinstance(frame, Frame)
        end = frame.offset + frame.size
    return end < len(data)


def main() -> int:
    """Run the rounds; exit code 1 when anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    result = Result()
    base = Path(tempfile.mkdtemp(prefix="tensight-kills-"))
    try:
        for number in range(options.kills):
            folder = base / str(number)
            kill_once(folder, chance, result, follow=number % 2 == 1)
            shutil.rmtree(folder, ignore_errors=True)
            if sys.stderr.isatty():
                print(f"\r{number + 1} of {options.kills}", end="", file=sys.stderr)
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(base)
    if options.json:
        print(json.dumps(asdict(result)))
    else:
        print(
            f"{result.kills} kills, {result.acknowledged} acknowledged steps: {result.lost} lost, "
            f"{result.unreadable} runs unreadable, {result.torn} torn tails cut, {len(result.problems)} problems"
        )
        for problem in result.problems[:20]:
            print("  " + problem)
    return int(bool(result.lost or result.unreadable or result.problems))


if __name__ == "__main__":
    sys.exit(main())
