"""A program under `tensight run`, and the report it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def report(
    folder: Path, program: str | Path, *options: str, arguments: tuple[str, ...] = (), timeout: float = 250
) -> dict[str, Any]:
    """Run a program without a page; it must end by itself, and well."""
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "tensight",
            "run",
            "--no-page",
            "--report",
            "report.json",
            *options,
            program,
            *arguments,
        ],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found
