"""What watching costs: the same program bare and watched, taking turns, and bare against bare as control.

    python benchmarks/overhead.py                         every network: default budget, --budget 100, --level op
    python benchmarks/overhead.py --only mlp --blocks 40 --options='--budget 2'

A bare and a watched process are alive at once and each runs a block of steps in turn while the other waits: a machine
that grows slower or is disturbed slows both alike. Only two, since whatever goes by the clock goes on while a process
waits. It is done with several pairs, since where its memory happens to lie makes one process up to a tenth slower than
another for as long as it lives. All of them keep the memory they were once given: whether the C library gives it back
after every step, and has the system clear it again in the next, hangs on what lies at the end of the heap, and makes
steps of the bare ResNet a fifth longer or not.

A ratio is a block of the watched process over the bare one's block beside it; the table has the median over all blocks
of all pairs and the range of their middle half. 'sum' is the time of all blocks over that of the bare ones: what
sampling costs falls on few steps, and a median alone would hide it. 'pairs' are the sums of each pair. Wall time first,
CPU time of the process beside it. Steps before the first half second of watching is spent, which is free, are warm-up.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROGRAM = Path(__file__).parent / "programs" / "training.py"
CONTROL = "control"
DEFAULT_OPTIONS = ["", "--budget 100", "--level op"]
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}


class Network(NamedTuple):
    block: int  # steps in a turn
    warmup: int  # blocks that are not counted
    blocks: int


NETWORKS = {
    "gpt": Network(2, 14, 12),
    "resnet18": Network(5, 12, 15),
    "resnet18-cifar": Network(1, 14, 12),
    "lenet": Network(15, 8, 15),
    "mlp": Network(500, 4, 15),
}
PAIRS = 3


class Running:
    """One process that runs a block of steps whenever it is told to."""

    def __init__(self, name: str, options: str | None, network: Network, folder: str) -> None:
        command = [sys.executable]
        if options is not None:
            command += ["-m", "tensight", "run", "--no-page", "--run-dir", f"{folder}/run", *shlex.split(options)]
        steps = network.block * (network.warmup + network.blocks + 1)  # none ends while the other one is timed
        command += [str(PROGRAM), name, str(steps), "0"]
        self._errors = (Path(folder) / "errors.txt").open("w+")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=folder,
            env={**os.environ, **KEEP_MEMORY, "TRAINING_BLOCK": str(network.block)},
        )

    def block(self) -> tuple[float, float]:
        """Wall and CPU seconds of the next block."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("["):
                wall, cpu = json.loads(line)
                return wall, cpu
        self._errors.seek(0)
        raise SystemExit(f"{self._process.args} failed:\n{self._errors.read()[-2000:]}")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()


Blocks = list[tuple[tuple[float, float], tuple[float, float]]]  # wall and CPU seconds of a block, bare and watched


def measure(name: str, options: str | None, network: Network) -> Blocks:
    """A bare process and another one in turn; each begins every second round."""
    found: Blocks = []
    with tempfile.TemporaryDirectory() as root:
        pair = []
        try:
            for place, given in enumerate((None, options)):
                folder = f"{root}/{place}"
                Path(folder).mkdir()
                pair.append(Running(name, given, network, folder))
            for turn in range(network.warmup + network.blocks):
                seconds = {place: pair[place].block() for place in ((0, 1) if turn % 2 else (1, 0))}
                if turn >= network.warmup:
                    found.append((seconds[0], seconds[1]))
        finally:
            for process in pair:
                process.close()
    return found


def cell(pairs: list[Blocks], clock: int) -> str:
    ratios = [watched[clock] / bare[clock] for blocks in pairs for bare, watched in blocks]
    low, middle, high = statistics.quantiles(ratios, n=4)
    each = ", ".join(f"{_sum([blocks], clock):.3f}" for blocks in pairs)
    return f"{middle:.3f} ({low:.3f} to {high:.3f}), sum {_sum(pairs, clock):.3f}, pairs {each}"


def _sum(pairs: list[Blocks], clock: int) -> float:
    blocks = [block for blocks in pairs for block in blocks]
    return sum(watched[clock] for _, watched in blocks) / sum(bare[clock] for bare, _ in blocks)


def rows(name: str, options: list[str], network: Network, pairs: int) -> Iterator[str]:
    """Lines of the table, one as soon as it is measured: the control, then each of the options."""
    for given in [None, *options]:
        found = [measure(name, given, network) for _ in range(pairs)]
        bare = 1000 * statistics.median(block[0][0] for blocks in found for block in blocks) / network.block
        kind = CONTROL if given is None else given or "default"
        step = f"{bare:.0f}" if bare >= 100 else f"{bare:.3g}"
        yield f"| {name} ({step} ms) | {kind} | {cell(found, 0)} | {cell(found, 1)} |"


def arguments(about: str | None, networks: list[str], pairs: int) -> argparse.ArgumentParser:
    """What such a measurement is asked for."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=networks, action="append")
    parser.add_argument("--options", action="append", help="of `tensight run`; may be given several times")
    parser.add_argument("--blocks", type=int, help="how many blocks are counted")
    parser.add_argument("--pairs", type=int, default=pairs, help="how many of each kind")
    return parser


def main() -> None:
    given = arguments(__doc__, list(NETWORKS), PAIRS).parse_args()
    print("| network | options | wall time over bare | CPU time over bare |\n| --- | --- | --- | --- |", flush=True)
    for name in given.only or NETWORKS:
        network = NETWORKS[name]
        if given.blocks:
            network = network._replace(blocks=given.blocks)
        for line in rows(name, DEFAULT_OPTIONS if given.options is None else given.options, network, given.pairs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
