"""Fifty injected faults over ten networks, and twenty twins that only sum in another order: who names the right module?

    python benchmarks/compare_faults.py [--json] [--dtype float32|bfloat16] [--only NETWORK]

Each network is recorded once as a reference (`tensight.reference`), and once as a run (`tensight.watch`, one step with
its tensors kept). Then it is changed in one place, and both ways are asked for the first divergence. Beside them stand
the per-module rules of msprobe's comparison, applied to the same tensors: an error where at least 90 % of a module's
inputs and parameters lie within 1/1000 and fewer than 10 % of its outputs do; a warning where inputs have a cosine over
0.9 and the outputs' is lower by more than 0.1; the first of either counts. A fault that changes no bit of the output is
left out and counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

from programs.compared import NETWORKS, Fault, faults_of, reordered

import tensight
from tensight.capture.deep import DeepSteps
from tensight.compare.reference import Recorded
from tensight.session.settings import Settings
from tensight.session.watching import Watching

Named = str | None


def recorded_run(folder: Path, model: Any, x: Any) -> Path:
    """One step of a training of the model, with all its tensors kept."""
    torch.manual_seed(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    settings = Settings(
        run_dir=folder, budget=100.0, level="module", steps=DeepSteps.parse("0"), recommended=False, rewind=False
    )
    with Watching(model, optimizer, settings, quiet=True):
        out = model(x)
        loss = out.float().square().mean()
        loss.backward()
        optimizer.step()
    return folder


def by_msprobe(a: Recorded, b: Recorded) -> Named:
    """The first module that msprobe's rules point at."""
    theirs = {(call.path, call.call): call for call in b.notes.calls}
    weights_a, weights_b = a.named("weights"), b.named("weights")
    for call in a.notes.calls:
        other = theirs.get((call.path, call.call))
        if other is None:
            continue
        inputs = list(zip(_arrays(a, call.arguments), _arrays(b, other.arguments)))
        own = [name for name in weights_a if name.rpartition(".")[0] == call.path and name in weights_b]
        given = inputs + [(weights_a[name], weights_b[name]) for name in own]
        outputs = [(a.tensor(x), b.tensor(y)) for x, y in zip(call.outputs, other.outputs)]
        if any(x.shape != y.shape for x, y in (*given, *outputs)):
            return call.path
        if any(np.isfinite(x).all() != np.isfinite(y).all() for x, y in outputs):
            return call.path
        close_in = min((_close(x, y) for x, y in given), default=1.0)
        close_out = min((_close(x, y) for x, y in outputs), default=1.0)
        like_in = min((_cosine(x, y) for x, y in inputs), default=1.0)
        like_out = min((_cosine(x, y) for x, y in outputs), default=1.0)
        if (close_in > 0.9 and close_out < 0.1) or (like_in > 0.9 and like_in - like_out > 0.1):
            return call.path
    return None


def _arrays(side: Recorded, tree: Any) -> list[Any]:
    found: list[Any] = []
    side.tree(tree, lambda array, dtype: found.append(array))
    return found


def _close(x: Any, y: Any) -> float:
    x, y = x.astype(np.float64), y.astype(np.float64)
    size = np.where(x == 0, 1e-30, np.abs(x))
    return float(np.mean(np.abs(x - y) / size < 1e-3)) if x.size else 1.0


def _cosine(x: Any, y: Any) -> float:
    x, y = x.astype(np.float64).reshape(-1), y.astype(np.float64).reshape(-1)
    sizes = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / sizes if sizes else 1.0


def built(name: str, dtype: torch.dtype) -> tuple[Any, Any]:
    """The network and its batch, always the same."""
    torch.manual_seed(0)
    model, x = NETWORKS[name]()
    model = model.to(dtype)
    return model, x.to(dtype) if x.is_floating_point() else x


def first(found: Any) -> Named:
    return None if found.first_divergence is None else found.first_divergence.module


def tried(folder: Path, name: str, dtype: torch.dtype, tell: Callable[[dict[str, Any]], None]) -> None:
    """All faults of a network, and its twin."""
    model, x = built(name, dtype)
    torch.manual_seed(5)
    reference = tensight.reference(folder / "reference", model, x)
    clean = recorded_run(folder / "clean", model, x)
    cases: list[Fault | None] = [*faults_of(name), None]
    for number, fault in enumerate(cases):
        other, _ = built(name, dtype)
        change = reordered if fault is None else fault.inject
        change(other)
        torch.manual_seed(5)
        place = folder / f"case-{number}"
        theirs = tensight.reference(place / "reference", other, x)
        same = all(np.array_equal(p, q) for p, q in zip(reference.outputs, theirs.outputs))
        found = first(reference.compare(other))
        torch.manual_seed(5)
        run = recorded_run(place / "run", other, x)
        tell(
            {
                "network": name,
                "dtype": str(dtype).removeprefix("torch."),
                "fault": "none: another order of sums" if fault is None else fault.what,
                "module": None if fault is None else fault.module,
                "no_effect": same,
                "reference": found,
                "runs": first(tensight.compare(clean, run)),
                "msprobe": by_msprobe(reference.recorded, theirs.recorded),
            }
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"))
    parser.add_argument("--only", choices=tuple(NETWORKS))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []

    def tell(row: dict[str, Any]) -> None:
        rows.append(row)
        if not asked.json:
            marks = " ".join(f"{way}={_mark(row, way)}" for way in ("reference", "runs", "msprobe"))
            where = f"{row['dtype']:9} {row['network']:12} {row['fault']:28} {row['module'] or '-':22}"
            print(where, marks, flush=True)

    with tempfile.TemporaryDirectory(prefix="tensight-faults-") as folder:
        for dtype in (torch.float32, torch.bfloat16):
            for name in NETWORKS:
                if asked.dtype in (None, str(dtype).removeprefix("torch.")) and asked.only in (None, name):
                    tried(Path(folder) / f"{name}-{dtype}", name, dtype, tell)
    summary = {}
    for way in ("reference", "runs", "msprobe"):
        faults = [row for row in rows if row["module"] is not None and not row["no_effect"]]
        twins = [row for row in rows if row["module"] is None]
        summary[way] = {
            "module_right": sum(row[way] == row["module"] for row in faults),
            "faults": len(faults),
            "false_alarms": sum(row[way] is not None for row in twins),
            "twins": len(twins),
        }
    left_out = sum(row["no_effect"] for row in rows if row["module"] is not None)
    if asked.json:
        print(json.dumps({"summary": summary, "no_effect": left_out, "rows": rows}))
        return
    for way, found in summary.items():
        share = found["module_right"] / max(found["faults"], 1)
        print(
            f"{way:10} module right {found['module_right']} of {found['faults']} ({share:.0%}), "
            f"false alarms {found['false_alarms']} of {found['twins']}"
        )
    print(f"{left_out} faults changed no bit of the output and were left out")


def _mark(row: dict[str, Any], way: str) -> str:
    wanted, got = row["module"], row[way]
    if row["no_effect"] and wanted is not None:
        return "no effect"
    if got == wanted:
        return "right"
    return "missed" if got is None else f"wrong ({got or 'root'})"


if __name__ == "__main__":
    main()
