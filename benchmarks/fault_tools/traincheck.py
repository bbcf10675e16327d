"""TrainCheck: what holds in a trace of the healthy twin is learnt, and looked for in a trace of the program.

Used as in its tutorial: `traincheck-collect` on the reference with the models tracked, `traincheck-infer`,
`traincheck-collect` on the program, `traincheck-check`. Its guide also gives the invariants to the second collection,
so that only what they need is instrumented; with 0.2.0 and PyTorch 2.13 that made a second run of a healthy program
violate invariants by itself (TRAINCHECK_SELECTIVE=1 does it that way), while its full trace violated none.
To infer from a hundred steps takes many minutes, so both runs end after their first optimizer steps (STEPS); the guide
asks for a short run as well. It wants a Python of its own:

    python -m venv traincheck && traincheck/bin/pip install traincheck torch==2.13.0 'numpy<2'
    traincheck/bin/python benchmarks/fault_tools.py --programs DIR --tool traincheck --keep marks.jsonl
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

STEPS = int(os.environ.get("TRAINCHECK_STEPS", "10"))
SELECTIVE = bool(os.environ.get("TRAINCHECK_SELECTIVE"))
TITLE = f"TrainCheck, the first {STEPS} steps, the healthy twin as its reference"
NEEDS = "traincheck"
REFERENCE = True
START = ""

# TrainCheck gives the program its own folder as PYTHONPATH, so this lies beside it.
STOP = f"""
from torch.optim.optimizer import register_optimizer_step_post_hook

steps = []


def after(*_):
    steps.append(1)
    if len(steps) >= {STEPS}:
        raise SystemExit(0)


register_optimizer_step_post_hook(after)
"""


def command(python: str, script: str) -> list[str]:
    return [python, str(Path(__file__).resolve()), script]


def told(folder: Path, errors: str, fresh: bool) -> dict[str, Any] | None:
    done = folder / "violated.json"
    if not done.is_file():
        raise RuntimeError((errors.strip().splitlines() or ["it did not come to a check"])[-1][:200])
    result = json.loads(done.read_text())
    violated = [one for one in result["violated"] if not fresh or text(one) not in result["known"]]
    if not violated:
        return None
    # Its report has no order of importance: what all of them say together is scored, which is kind.
    all_of_it = json.dumps(violated)
    return {
        "words": " ".join(text(one) for one in violated),
        "op": " ".join(re.findall(r"[\w.]+(?=\(\))", " ".join(text(one) for one in violated))),
        "parameter": re.findall(r'"(?:var_name|attributes.name)": "([\w.]+)"', all_of_it)[:1],
    }


def text(one: dict[str, Any]) -> str:
    """
    >>> text({"invariant": {"text_description": "SGD.step() changes Parameter.data"}})
    'SGD.step() changes Parameter.data'
    """
    return str(one["invariant"].get("text_description") or one["invariant"]["params"])


# What a second run of the healthy twin violates is said of anything. The second row leaves that out, so it can have no
# false alarm.
ROWS: dict[str, Callable[[Path, str], dict[str, Any] | None]] = {
    TITLE: lambda folder, errors: told(folder, errors, False),
    f"{TITLE}, without what a second healthy run violates": lambda folder, errors: told(folder, errors, True),
}


def run(tool: str, *arguments: str) -> None:
    subprocess.run([str(Path(sys.executable).with_name(f"traincheck-{tool}")), *arguments], check=True, stdout=2)


def models(script: str) -> list[str]:
    """The variables whose parameters the program gives to somebody."""
    found = re.findall(r"\b(\w+)\.parameters\(\)", Path(script).read_text())
    return sorted(set(found) - {"self"})


def collect(script: str, output: str, *more: str) -> None:
    tracked = ["--models-to-track", *models(script)]
    run("collect", "--pyscript", script, *tracked, *more, "--output-dir", output)


def check(script: str, known: Path) -> list[dict[str, Any]]:
    """The invariants that a run of the program violates."""
    name = script.removesuffix(".py")
    collect(script, f"trace-{name}", *(["--invariants", str(known)] if SELECTIVE else []))
    run("check", "-f", f"trace-{name}", "-i", str(known), "--no-html-report", "-o", f"checked-{name}")
    violated, decoder = [], json.JSONDecoder()
    logs = sorted(Path(f"checked-{name}").rglob("failed.log"))
    if not logs:
        raise RuntimeError("the check wrote no log")
    for log in logs:
        rest = log.read_text().strip()
        while rest:
            one, end = decoder.raw_decode(rest)
            violated.append({"invariant": one["invariant"], "trace": one.get("trace")})
            rest = rest[end:].strip()
    return violated


def reference() -> tuple[Path, list[dict[str, Any]]]:
    """What holds in the reference, and what of it a second run of the reference violates. Kept for the next program."""
    digest = sha256(Path("reference.py").read_bytes()).hexdigest()[:16]
    kept = Path(tempfile.gettempdir()) / f"traincheck-{digest}-{STEPS}{'-selective' * SELECTIVE}"
    if not (kept / "violated.json").is_file():
        kept.mkdir(exist_ok=True)
        collect("reference.py", "trace-first")
        run("infer", "-f", "trace-first", "-o", str(kept / "invariants.json"))
        violated = check("reference.py", kept / "invariants.json")
        (kept / "violated.json").write_text(json.dumps(violated))
    return kept / "invariants.json", json.loads((kept / "violated.json").read_text())


def main() -> None:
    Path("sitecustomize.py").write_text(STOP)
    learnt, again = reference()
    same = Path(sys.argv[1]).read_bytes() == Path("reference.py").read_bytes()
    violated = again if same else check(sys.argv[1], learnt)
    Path("violated.json").write_text(json.dumps({"violated": violated, "known": [text(one) for one in again]}))


if __name__ == "__main__":
    main()
