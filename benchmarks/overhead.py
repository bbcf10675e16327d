"""What watching costs: the same program bare and watched, taking turns, with a second bare one as control.

    python benchmarks/overhead.py                         every network: default budget, --budget 100, --level op
    python benchmarks/overhead.py --only mlp --blocks 40 --options='--budget 2'

All processes of a network are alive at once and each runs a block of steps in turn while the others wait, in an order
that changes with every round: a machine that grows slower or is disturbed slows all of them alike. Each kind runs in
several processes, since where its memory happens to lie makes one process up to a tenth slower than another for as long
as it lives. A ratio is the mean block of a kind over the mean block of all bare processes in the same round; the table
has the median over rounds and the range of their middle half. 'sum' is the time of all blocks over that of the bare
ones: what sampling costs falls on few steps, and a median alone would hide it. 'processes' are the ratios of each
process of the kind. Wall time first, CPU time of the process beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

PROGRAM = Path(__file__).parent / "programs" / "training.py"
BARE = ("bare", "control")
DEFAULT_OPTIONS = ["", "--budget 100", "--level op"]


class Network(NamedTuple):
    block: int  # steps in a turn
    warmup: int  # blocks that are not counted
    blocks: int


NETWORKS = {
    "gpt": Network(2, 7, 9),
    "resnet18": Network(3, 5, 9),
    "lenet": Network(15, 5, 9),
    "mlp": Network(500, 3, 9),
}
PROCESSES = 3


class Running:
    """One process that runs a block of steps whenever it is told to."""

    def __init__(self, name: str, options: str | None, network: Network, folder: str) -> None:
        command = [sys.executable]
        if options is not None:
            command += ["-m", "tensight", "run", "--no-page", "--run-dir", f"{folder}/run", *shlex.split(options)]
        steps = network.block * (network.warmup + network.blocks)
        command += [str(PROGRAM), name, str(steps), "0"]
        self._errors = (Path(folder) / "errors.txt").open("w+")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=folder,
            env={**os.environ, "TRAINING_BLOCK": str(network.block)},
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


Blocks = dict[str, list[list[tuple[float, float]]]]  # by kind, for each process: wall and CPU seconds of each block


def measure(name: str, options: list[str], network: Network, processes: int) -> Blocks:
    """Every process in turn, in another order each round."""
    kinds: dict[str, str | None] = {**dict.fromkeys(BARE), **{text or "default": text for text in options}}
    running: dict[tuple[str, int], Running] = {}
    found: Blocks = {kind: [[] for _ in range(processes)] for kind in kinds}
    with tempfile.TemporaryDirectory() as root:
        try:
            for kind, text in kinds.items():
                for number in range(processes):
                    folder = f"{root}/{len(running)}"
                    Path(folder).mkdir()
                    running[kind, number] = Running(name, text, network, folder)
            for turn in range(network.warmup + network.blocks):
                order = list(running)
                random.Random(turn).shuffle(order)
                for kind, number in order:
                    seconds = running[kind, number].block()
                    if turn >= network.warmup:
                        found[kind][number].append(seconds)
        finally:
            for process in running.values():
                process.close()
    return found


def table(name: str, found: Blocks, network: Network) -> list[str]:
    """A line for each kind: ratios of wall time and of CPU time."""
    lines = []
    step = 1000 * statistics.median(wall for one in found["bare"] for wall, _ in one) / network.block
    for kind in list(found)[1:]:
        against = found["bare"] if kind == "control" else [one for bare in BARE for one in found[bare]]
        cells = []
        for clock in range(2):
            bare, ours = _by_round(against, clock), _by_round(found[kind], clock)
            low, middle, high = statistics.quantiles([mine / theirs for mine, theirs in zip(ours, bare)], n=4)
            each = ", ".join(f"{sum(block[clock] for block in one) / sum(bare):.3f}" for one in found[kind])
            cells.append(f"{middle:.3f} ({low:.3f} to {high:.3f}), sum {sum(ours) / sum(bare):.3f}, processes {each}")
        lines.append(f"| {name} ({step:.3g} ms) | {kind} | {cells[0]} | {cells[1]} |")
    return lines


def _by_round(processes: list[list[tuple[float, float]]], clock: int) -> list[float]:
    return [statistics.fmean(block[clock] for block in blocks) for blocks in zip(*processes)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(NETWORKS), action="append")
    parser.add_argument("--options", action="append", help="of `tensight run`; may be given several times")
    parser.add_argument("--blocks", type=int, help="how many blocks are counted")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="how many of each kind")
    given = parser.parse_args()
    print("| network | options | wall time over bare | CPU time over bare |\n| --- | --- | --- | --- |", flush=True)
    for name in given.only or NETWORKS:
        network = NETWORKS[name]
        if given.blocks:
            network = network._replace(blocks=given.blocks)
        options = DEFAULT_OPTIONS if given.options is None else given.options
        print("\n".join(table(name, measure(name, options, network, given.processes), network)), flush=True)


if __name__ == "__main__":
    main()
