"""A search with pruning by findings against plain Optuna: training until the target is reached, and in all.

    python benchmarks/tuning.py [--trials 40] [--seed 0] [--target 1e-6] [--ways findings values plain] [--write]

Two parameters; much of the space explodes, dies or does not learn. Same sampler, seed, number of trials and script, and
each trial is a process, one at a time. "plain" is Optuna's own `study.optimize` without anything of ours; "values" is
Optuna with its median pruner, for which the script reports its loss every 10 steps; "findings" is `tensight tune`, with
the script as it is. Training is counted in steps and in processor seconds of the training loop, with what watching
takes, so that a busy machine does not decide. --kept FILE keeps what each way has found, so that ways may be run one by
one; --write puts the table into docs/howto/hyper-parameters.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna

from tensight.records.search import Search
from tensight.tuning.config import Config, parse
from tensight.tuning.study import Study

WAYS = ("findings", "values", "plain")
SCRIPT = Path(__file__).parent / "programs" / "tuned.py"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "howto" / "hyper-parameters.md"
MARKS = ("<!-- table -->\n", "<!-- end of table -->")
NAMES = {
    "findings": "`tensight tune`, pruned by findings",
    "values": "pruned by value: the script reports its loss",
    "plain": "Optuna alone",
}

LOW, HIGH = {"lr": 1e-4, "scale": 1e-3}, {"lr": 1e2, "scale": 1e2}


def config(trials: int, seed: int, spent: Path, steps: int, more: str = "") -> Config:
    return parse(
        {
            "command": f"python {SCRIPT} --lr {{lr}} --scale {{scale}} --steps {steps} --spent {spent}{more}",
            "parameters": {name: f"{LOW[name]}..{HIGH[name]} log" for name in LOW},
            "minimize": "error",
            "trials": trials,
            "seed": seed,
        }
    )


def tensight(way: str, trials: int, seed: int, target: float, steps: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as place:
        spent = Path(place) / "spent"
        spent.mkdir()
        asked = config(trials, seed, spent, steps, " --report" if way == "values" else "")
        if way == "values":
            asked = replace(asked, prune_findings=())
        order: list[Path] = []
        reached: list[int] = []

        def told(found: Search) -> None:
            order.extend(sorted(set(spent.glob("*.json")) - set(order), key=lambda file: file.stat().st_mtime))
            if not reached and any(row.value is not None and row.value <= target for row in found.trials):
                reached.append(len(order))

        found = Study(asked, Path(place) / "study", watch=way != "values").run(told)
        best = found.trials[found.best].value if found.best is not None else None
        states = Counter(row.state for row in found.trials)
        why = Counter(row.reason.partition(":")[0][:80] for row in found.trials if row.state != "complete")
        return {**summary(way, best, order, reached), "states": dict(states), "why": dict(why)}


def plain(way: str, trials: int, seed: int, target: float, steps: int) -> dict[str, object]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with tempfile.TemporaryDirectory() as place:
        spent = Path(place)
        order: list[Path] = []
        reached: list[int] = []

        def objective(trial: optuna.Trial) -> float:
            values = {name: trial.suggest_float(name, LOW[name], HIGH[name], log=True) for name in LOW}
            words = [word for name, value in values.items() for word in (f"--{name}", str(value))]
            words = [sys.executable, str(SCRIPT), *words, "--steps", str(steps), "--spent", str(spent)]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            order.extend(set(spent.glob("*.json")) - set(order))
            error = float(done.stdout.rpartition("error:")[2])
            if error <= target and not reached:
                reached.append(len(order))
            return error

        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        study.optimize(objective, n_trials=trials)
        states = Counter(trial.state.name.lower() for trial in study.trials)
        return {**summary(way, study.best_value, order, reached), "states": dict(states)}


def summary(way: str, best: float | None, order: list[Path], reached: list[int]) -> dict[str, object]:
    rows = [json.loads(file.read_text()) for file in order]
    until = rows[: reached[0]] if reached else rows
    return {
        "way": way,
        "best": best,
        "reached": bool(reached),
        "trials until": len(until),
        "steps until": sum(row["steps"] for row in until),
        "seconds until": round(sum(row["seconds"] for row in until), 2),
        "steps": sum(row["steps"] for row in rows),
        "seconds": round(sum(row["seconds"] for row in rows), 2),
    }


def table(found: dict[str, dict[str, Any]], asked: argparse.Namespace) -> str:
    lines = [
        f"{asked.trials} trials of at most {asked.steps} steps, seed {asked.seed}, target {asked.target:g}; seconds of "
        "the processor in the training loop, with what watching takes.",
        "",
        "| search | best | reached | trials until | steps until | seconds until | steps in all | seconds in all |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for way, row in found.items():
        until = [row[key] if row["reached"] else "–" for key in ("trials until", "steps until", "seconds until")]
        cells = [NAMES[way], f"{row['best']:.2g}", "yes" if row["reached"] else "no", *until]
        lines.append("| " + " | ".join(str(cell) for cell in (*cells, row["steps"], row["seconds"])) + " |")
    return "\n".join(lines) + "\n"


def kept(path: Path | None) -> dict[str, dict[str, Any]]:
    return json.loads(path.read_text()) if path is not None and path.exists() else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", type=float, default=1e-6)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=WAYS)
    parser.add_argument("--kept", type=Path, help="a file with what was found before, and what is found now")
    parser.add_argument("--write", action="store_true", help="put the table into the documentation")
    asked = parser.parse_args()
    found = kept(asked.kept)
    for way in asked.ways:
        search = plain if way == "plain" else tensight
        found[way] = search(way, asked.trials, asked.seed, asked.target, asked.steps)
        print(json.dumps(found[way]), flush=True)
        if asked.kept:
            found = {**kept(asked.kept), way: found[way]}
            asked.kept.write_text(json.dumps(found))
    if not {"findings", "plain"} <= set(found):
        return 0
    if asked.write:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARKS[0])
        ordered = {way: found[way] for way in WAYS if way in found}
        PAGE.write_text(before + MARKS[0] + table(ordered, asked) + MARKS[1] + rest.partition(MARKS[1])[2], "utf-8")
    ours, other = found["findings"], found["plain"]
    less = ours["reached"] and ours["seconds until"] <= other["seconds until"] and ours["seconds"] < other["seconds"]
    print("less training than plain Optuna" if less else "not less training than plain Optuna")
    return 0 if less else 1


if __name__ == "__main__":
    sys.exit(main())
