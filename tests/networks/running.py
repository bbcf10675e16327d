"""Runs the programs of this folder under `tensight run`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FULL = bool(os.environ.get("TENSIGHT_FULL"))


def programs(folder: str) -> list[Path]:
    """All programs of a folder, in order."""
    return sorted((HERE / folder).glob("*.py"))


def findings(program: Path, folder: Path, *arguments: str, budget: str = "5") -> list[dict[str, Any]]:
    """What is found in a program. It must end by itself, and nothing of Tensight may have failed on the way."""
    options = ["--no-page", "--budget", budget, "--report", "report.json", "--run-dir", "run"]
    ran = subprocess.run(
        [sys.executable, "-m", "tensight", "run", *options, str(program), *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=250,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, ran.stderr
    report = json.loads((folder / "report.json").read_text())
    assert report["lost"] == []
    found: list[dict[str, Any]] = report["findings"]
    return found
