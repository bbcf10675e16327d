"""Tensight as it comes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TITLE = "**tensight**"
NEEDS = "torch"
START = ""


def command(python: str, script: str) -> list[str]:
    return [python, "-m", "tensight", "run", "--no-page", "--report", "report.json", script]


def told(folder: Path, errors: str) -> dict[str, Any] | None:
    findings = json.loads((folder / "report.json").read_text())["findings"]
    if not findings:
        return None
    first = findings[0]
    return {"words": f"{first['fault']} {first['title']} {first['why']}", **first["where"]}
