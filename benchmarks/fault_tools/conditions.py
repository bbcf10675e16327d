"""The seventeen conditions by themselves, at their recommended thresholds: hits, without rules and without rewind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TITLE = "the seventeen conditions alone, recommended thresholds"
NEEDS = "torch"
START = ""


def command(python: str, script: str) -> list[str]:
    return [python, "-m", "tensight", "run", "--no-page", "--no-rewind", "--report", "report.json", script]


def told(folder: Path, errors: str) -> dict[str, Any] | None:
    report = json.loads((folder / "report.json").read_text())
    hits = sorted(report["hits"], key=lambda hit: hit["step"])
    if not hits:
        return None
    hit = hits[0]
    return {
        "words": f"{hit['watchpoint']} {hit['condition']} {hit['kind']} {hit['node']} {hit['slot']} {hit['actual']}",
        "module": hit["node"],
        "parameter": hit["node"],
        "op": hit.get("op"),
        "line": (hit.get("source") or {}).get("line"),
    }
