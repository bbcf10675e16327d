"""What watching takes of memory: the largest resident set of the same program, bare and watched.

    python benchmarks/memory.py [--only gpt] [--times 5]

Each is a process of its own, taking turns. Where blocks happen to lie moves a peak by some megabytes, and by tens where
activations are large: so the medians are compared, and beside them the range of the bare ones is shown. A difference
that is smaller than this range is no difference. The networks are those of `benchmarks/overhead.py`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

PROGRAM = Path(__file__).parent / "programs" / "training.py"
STEPS = {"gpt": 14, "resnet18": 14, "resnet18-cifar": 14, "lenet": 150, "mlp": 600}
KINDS: dict[str, list[str] | None] = {"bare": None, "watch": ["--no-rewind"], "watch, rewind": []}


def peak(name: str, options: list[str] | None) -> float:
    """In MB."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable]
        if options is not None:
            command += ["-m", "tensight", "run", "--no-page", "--run-dir", f"{folder}/run", *options]
        command += [str(PROGRAM), name, str(STEPS[name]), "0"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                assert process.stderr is not None
                raise SystemExit(f"{command} failed:\n{process.stderr.read().decode()[-2000:]}")
        return used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(STEPS), action="append")
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    print(
        "| network | peak, bare | bare, from to | watching adds | with rewind |\n| --- | --- | --- | --- | --- |",
        flush=True,
    )
    for name in given.only or STEPS:
        seen: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for _ in range(given.times):
            for kind, options in KINDS.items():
                seen[kind].append(peak(name, options))
        bare = median(seen["bare"])
        added = [median(peaks) - bare for kind, peaks in seen.items() if kind != "bare"]
        cells = [f"{more:.1f} MB ({100 * more / bare:.1f} %)" for more in added]
        spread = f"{min(seen['bare']):.0f} to {max(seen['bare']):.0f} MB"
        print(f"| {name} | {bare:.0f} MB | {spread} | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()
