"""One bit changes on one rank: is it found at the next check, and by its right name?

    python benchmarks/bit_flips.py [--trials 200] [--ranks 2]

Replicas train under `tensight run`. Every 64 steps one random bit of one weight, static buffer or averaged copy changes
on one rank, and changes back behind that step. A trial is right when the checksums of that step differ in exactly the
tensor that was changed; between the trials all ranks must agree. What watching decides by itself (the budget, how often
checks are made) is left as it is.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import tensight
from tensight.runs import agreement

PROGRAM = Path(__file__).resolve().parents[1] / "tests" / "ranks" / "flips.py"
APART = 64  # steps between two trials
KINDS = ("weight", "buffer", "copy")
PAUSE = 0.008  # seconds in a step, so that checks come often enough


def train(folder: str, ranks: int, changes: list[str], steps: int) -> Path:
    run = Path(folder) / "run"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "-m"]
    command += ["tensight", "run", "--no-page", "--run-dir", str(run), str(PROGRAM), str(steps), str(PAUSE), *changes]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return run


def differing(told: list[agreement.Told]) -> dict[int, dict[str, list[str]]]:
    """Step → kind → names of tensors whose checksums are not the same on all ranks; every common check is there."""
    found: dict[int, dict[str, list[str]]] = {}
    for part in told[0].parts:
        by_rank = [{check.update: check.sums for check in one.checks if check.part == part.name} for one in told]
        for step in set.intersection(*map(set, by_rank)):
            sums = [one[step] for one in by_rank]
            cut = [[one[place : place + 16] for place in range(0, len(one), 16)] for one in sums]
            names = [name for name, values in zip(part.parameters, zip(*cut)) if len(set(values)) > 1]
            found.setdefault(step, {})[part.type] = names
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=2)
    asked = parser.parse_args()
    chosen = random.Random(0)
    changes = [
        (APART * (1 + trial), KINDS[trial % len(KINDS)], chosen.randrange(asked.ranks), chosen.randrange(10**6))
        for trial in range(asked.trials)
    ]
    with tempfile.TemporaryDirectory() as folder:
        words = [":".join(map(str, change)) for change in changes]
        run = tensight.open(str(train(folder, asked.ranks, words, APART * (asked.trials + 1))))
        checks = differing([agreement.read(reader) for reader in run.readers.values()])
        found = [finding.title for finding in run.findings]
    right = dict.fromkeys(KINDS, 0)
    for step, kind, rank, _ in changes:
        names = {what: names for what, names in checks.get(step, {}).items() if names}
        if list(names) == [kind] and len(names[kind]) == 1:
            right[kind] += 1
        else:
            print(f"step {step}: a bit of a {kind} on rank {rank}: {names or 'no check'}")
    trials = {step for step, *_ in changes}
    wrong = sum(any(names.values()) for step, names in checks.items() if step not in trials)
    print(f"{sum(right.values())} of {len(changes)} changed bits found at the next check, by name ({right})")
    print(f"{wrong} of {len(checks) - len(trials & checks.keys())} other checks say that ranks differ")
    print(f"findings: {found}")
    return 0 if sum(right.values()) == len(changes) and not wrong else 1


if __name__ == "__main__":
    raise SystemExit(main())
