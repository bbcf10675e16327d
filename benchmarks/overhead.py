"""What watching costs: whole programs, bare and watched, interleaved, against a bare-against-bare control.

    python benchmarks/overhead.py                       every network, default budget
    python benchmarks/overhead.py --only mlp --rounds 9 --options='--budget 100'

Each round runs bare, watched, watched, bare as processes of their own; a ratio is the mean step of a watched process
over the mean of the two bare ones beside it. Mean, not median: what sampling costs falls on few steps. The interval is
the range of the middle half of the rounds.
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
from pathlib import Path

PROGRAM = Path(__file__).parent / "programs" / "training.py"
NETWORKS = {"gpt": (12, 6), "resnet18": (30, 8), "lenet": (150, 20), "mlp": (4000, 1500)}


def once(name: str, options: str | None, scale: float) -> float:
    steps, warmup = NETWORKS[name]
    command = [sys.executable]
    with tempfile.TemporaryDirectory() as folder:
        if options is not None:
            command += ["-m", "tensight", "run", "--no-page", "--run-dir", f"{folder}/run", *shlex.split(options)]
        command += [str(PROGRAM), name, str(int(steps * scale)), str(warmup)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=dict(os.environ))
        if done.returncode:
            raise SystemExit(f"{shlex.join(command)} failed:\n{done.stderr[-2000:]}")
        return statistics.fmean(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(NETWORKS), action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--options", default="")
    parser.add_argument("--scale", type=float, default=1.0, help="more or fewer steps")
    given = parser.parse_args()
    print(f"options: {given.options or 'default'}")
    print(f"{'network':10s} {'bare ms':>9s} {'control':>9s} {'watched':>9s}   middle half")
    for name in given.only or NETWORKS:
        bare, control, watched = [], [], []
        for _ in range(given.rounds):
            first = once(name, None, given.scale)
            ours = [once(name, given.options, given.scale) for _ in range(2)]
            last = once(name, None, given.scale)
            bare += [first, last]
            control.append(last / first)
            watched += [time / ((first + last) / 2) for time in ours]
        low, _, high = statistics.quantiles(watched, n=4)
        print(
            f"{name:10s} {1000 * statistics.median(bare):9.2f} {statistics.median(control):9.3f}"
            f" {statistics.median(watched):9.3f}   {low:.3f} to {high:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
