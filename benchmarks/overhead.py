"""What watching costs: the same program bare and watched, taking turns, with a second bare one as control.

    python benchmarks/overhead.py                         every network: default budget, --budget 100, --level op
    python benchmarks/overhead.py --only mlp --blocks 40 --options='--budget 2'

All processes of a network are alive at once and each runs a block of steps in turn while the others wait, in an order
that changes with every round: a machine that grows slower or is disturbed slows all of them alike. A ratio is a block
of the watched process over the mean of the two bare blocks of the same round; the table has the median over rounds and
the range of their middle half. 'sum' is the time of all blocks over that of the bare ones: what sampling costs falls on
few steps, and a median alone would hide it. Wall time first, CPU time of the process beside it.
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
    "gpt": Network(3, 4, 12),
    "resnet18": Network(4, 3, 15),
    "lenet": Network(30, 3, 15),
    "mlp": Network(800, 3, 15),
}


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


def measure(name: str, options: list[str], network: Network) -> dict[str, list[tuple[float, float]]]:
    """Wall and CPU seconds of each block, by what ran it."""
    kinds: dict[str, str | None] = {**dict.fromkeys(BARE), **{text or "default": text for text in options}}
    with tempfile.TemporaryDirectory() as root:
        running = {}
        for place, (kind, text) in enumerate(kinds.items()):
            folder = f"{root}/{place}"
            Path(folder).mkdir()
            running[kind] = Running(name, text, network, folder)
        found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
        try:
            for turn in range(network.warmup + network.blocks):
                order = list(kinds)
                random.Random(turn).shuffle(order)
                for kind in order:
                    seconds = running[kind].block()
                    if turn >= network.warmup:
                        found[kind].append(seconds)
        finally:
            for process in running.values():
                process.close()
    return found


def table(name: str, found: dict[str, list[tuple[float, float]]], network: Network) -> list[str]:
    """A line for each kind: ratios of wall time and of CPU time."""
    lines = []
    for kind, blocks in found.items():
        if kind == "bare":
            continue
        cells = []
        for clock in range(2):
            bare = [statistics.fmean(seconds[clock] for seconds in pair) for pair in zip(*map(found.get, BARE))]
            if kind == "control":
                bare = [seconds[clock] for seconds in found["bare"]]
            ours = [seconds[clock] for seconds in blocks]
            ratios = [mine / theirs for mine, theirs in zip(ours, bare)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            cells.append(f"{middle:.3f} ({low:.3f} to {high:.3f}), sum {sum(ours) / sum(bare):.3f}")
        step = 1000 * statistics.median(seconds[0] for seconds in found["bare"]) / network.block
        lines.append(f"| {name} ({step:.3g} ms) | {kind} | {cells[0]} | {cells[1]} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(NETWORKS), action="append")
    parser.add_argument("--options", action="append", help="of `tensight run`; may be given several times")
    parser.add_argument("--blocks", type=int, help="how many blocks are counted")
    given = parser.parse_args()
    print("| network | options | wall time over bare | CPU time over bare |\n| --- | --- | --- | --- |", flush=True)
    for name in given.only or NETWORKS:
        network = NETWORKS[name]
        if given.blocks:
            network = network._replace(blocks=given.blocks)
        options = DEFAULT_OPTIONS if given.options is None else given.options
        print("\n".join(table(name, measure(name, options, network), network)), flush=True)


if __name__ == "__main__":
    main()
