"""Runs the programs of this folder under `tensight run`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.reporting import report

HERE = Path(__file__).parent
FULL = bool(os.environ.get("TENSIGHT_FULL"))


def programs(folder: str) -> list[Path]:
    """All programs of a folder, in order."""
    return sorted((HERE / folder).glob("*.py"))


def findings(program: Path, folder: Path, *arguments: str, budget: str = "5") -> list[dict[str, Any]]:
    """What is found in a program. It must end by itself, and nothing of Tensight may have failed on the way."""
    told = report(folder, program, "--budget", budget, "--run-dir", "run", arguments=arguments)
    assert told["lost"] == []
    found: list[dict[str, Any]] = told["findings"]
    return found
