"""Pauses ranks under torchrun: longer than their collectives wait, and a hundred times over.

    python benchmarks/pause_ranks.py [--ranks 2] [--pause 45] [--timeout 20] [--cycles 100]

First one pause of so many seconds with a collective timeout that is shorter, then the training must go on. Then so many
cycles of pause and continue; in each, all ranks must hold behind the same step. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.ranks.driven import driven


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pause", type=float, default=45.0)
    parser.add_argument("--timeout", type=float, default=20.0)
    parser.add_argument("--cycles", type=int, default=100)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="tensight-pause-") as folder,
        driven(Path(folder), asked.ranks, str(asked.timeout), "0.002") as training,
    ):
        training.running(asked.ranks)
        step = training.pause()
        time.sleep(asked.pause)
        training.go_on(step)
        taken = []
        for number in range(asked.cycles):
            began = time.perf_counter()
            step = training.pause()  # fails when two ranks hold behind different steps
            taken.append(time.perf_counter() - began)
            training.go_on(step)
            if sys.stderr.isatty():
                print(f"\rcycle {number + 1} of {asked.cycles}", end="", file=sys.stderr)
        training.drive("terminate")
        code = training.process.wait(120)
    print(
        json.dumps(
            {
                "ranks": asked.ranks,
                "paused_seconds": asked.pause,
                "collective_timeout": asked.timeout,
                "went_on": True,
                "cycles": asked.cycles,
                "different_steps": 0,
                "pause_median_ms": round(1000 * statistics.median(taken), 1) if taken else None,
                "pause_longest_ms": round(1000 * max(taken), 1) if taken else None,
                "exit_code": code,
            }
        )
    )


if __name__ == "__main__":
    main()
