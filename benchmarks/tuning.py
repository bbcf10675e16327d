"""A search with pruning by findings against plain Optuna: training until the target is reached, and in all.

    python benchmarks/tuning.py [--trials 40] [--seed 0] [--target 1e-6] [--ways findings plain]

Two parameters; much of the space explodes, dies or does not learn. Same sampler, seed, number of trials and script.
"plain" is Optuna without reports, as a script that is not changed has it; "values" prunes by the losses of the runs;
"findings" prunes by findings as well, which is what `tensight tune` does. Training is counted in steps and in processor
seconds of the training loop, so that a busy machine does not decide.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tensight.tuning.config import Config, parse
from tensight.tuning.study import Study

WAYS = ("findings", "values", "plain")
SCRIPT = Path(__file__).parent / "programs" / "tuned.py"


def config(trials: int, seed: int, spent: Path, steps: int) -> Config:
    return parse(
        {
            "command": f"python {SCRIPT} --lr {{lr}} --scale {{scale}} --steps {steps} --spent {spent}",
            "parameters": {"lr": "1e-4..1e2 log", "scale": "1e-3..1e2 log"},
            "minimize": "error",
            "trials": trials,
            "seed": seed,
        }
    )


def search(way: str, trials: int, seed: int, target: float, steps: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as place:
        spent = Path(place) / "spent"
        spent.mkdir()
        asked = config(trials, seed, spent, steps)
        if way != "findings":
            asked = replace(asked, prune_findings=())
        if way == "plain":
            asked = replace(asked, pruner="none")
        order: list[Path] = []
        reached: list[int] = []

        def told(found) -> None:
            order.extend(sorted(set(spent.glob("*.json")) - set(order), key=lambda file: file.stat().st_mtime))
            if not reached and any(row.value is not None and row.value <= target for row in found.trials):
                reached.append(len(order))

        found = Study(asked, Path(place) / "study", watch=way != "plain").run(told)
        rows = [json.loads(file.read_text()) for file in order]
        until = rows[: reached[0]] if reached else rows
        states = [row.state for row in found.trials]
        best = found.trials[found.best].value if found.best is not None else None
        return {
            "way": way,
            "best": best,
            "reached": bool(reached),
            "steps until": sum(row["steps"] for row in until),
            "seconds until": round(sum(row["seconds"] for row in until), 2),
            "steps": sum(row["steps"] for row in rows),
            "seconds": round(sum(row["seconds"] for row in rows), 2),
            "pruned": states.count("pruned"),
            "failed": states.count("failed"),
            "failed because of": sorted({row.reason[:200] for row in found.trials if row.state == "failed"}),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", type=float, default=1e-6)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    asked = parser.parse_args()
    found = {}
    for way in asked.ways:
        found[way] = search(way, asked.trials, asked.seed, asked.target, asked.steps)
        print(json.dumps(found[way]), flush=True)
    if not {"findings", "plain"} <= set(found):
        return 0
    ours, plain = found["findings"], found["plain"]
    less = ours["reached"] and ours["seconds until"] <= plain["seconds until"] and ours["seconds"] < plain["seconds"]
    print("less training than plain Optuna" if less else "not less training than plain Optuna")
    return 0 if less else 1


if __name__ == "__main__":
    sys.exit(main())
