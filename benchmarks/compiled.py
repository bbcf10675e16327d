"""What watching costs a compiled training: the same program compiled and bare, compiled and watched, taking turns.

    python benchmarks/compiled.py [--only mlp] [--blocks 12] [--options='--budget 2'] [--backend inductor]

First each network is run alone, bare and watched: how many graphs and breaks the compiler has counted, and what the
first step takes, which is where it compiles. Then bare and watched take turns as in `benchmarks/overhead.py`, whose
table this prints: compiling is over by then, and is no part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

from overhead import NETWORKS, PAIRS, PROGRAM, rows

STEPS = 6


def counted(name: str, watched: bool) -> dict[str, float]:
    """What the compiler says of a short run, and its first step against the others."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable]
        if watched:
            command += ["-m", "tensight", "run", "--no-page", "--run-dir", f"{folder}/run"]
        command += [str(PROGRAM), name, str(STEPS), "0"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("[", "{"))]
    if done.returncode or len(lines) < 2:
        raise SystemExit(f"{command} failed:\n{done.stderr[-2000:]}")
    times, said = json.loads(lines[-2]), json.loads(lines[-1])
    return {**said, "step": statistics.median(times[1:])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(NETWORKS), action="append")
    parser.add_argument("--options", action="append", help="of `tensight run`; may be given several times")
    parser.add_argument("--blocks", type=int, help="how many blocks are counted")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="how many of each kind")
    given = parser.parse_args()
    os.environ["TRAINING_COMPILE"] = given.backend
    names = given.only or list(NETWORKS)
    print("| network | graphs bare, watched | breaks bare, watched | first step bare, watched | later step bare |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    for name in names:
        bare, ours = counted(name, False), counted(name, True)
        cells = [f"{bare[what]:.0f}, {ours[what]:.0f}" for what in ("graphs", "breaks")]
        cells.append(f"{bare['first_step']:.1f} s, {ours['first_step']:.1f} s")
        print(f"| {name} | {' | '.join(cells)} | {1000 * bare['step']:.3g} ms |", flush=True)
    print("\n| network | options | wall time over bare | CPU time over bare |\n| --- | --- | --- | --- |", flush=True)
    for name in names:
        network = NETWORKS[name]._replace(**({"blocks": given.blocks} if given.blocks else {}))
        for line in rows(name, given.options or [""], network, given.pairs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
