"""Runs whole programs under a dump, and reads what they left with NumPy alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

PROGRAMS = Path(__file__).parent / "programs"
_NAME = re.compile(r"(.+)\.0\.0\.(\d+)\.(input|output)\.(\d+)\.DefaultFormat\.\w+\.npy")


def config(folder: Path, way: str = "e2e", **common: Any) -> dict[str, Any]:
    settings = {"path": str(folder / "dump"), "net_name": "Net", "iteration": "all", **common}
    return {"common_dump_settings": settings, f"{way}_dump_settings": {"enable": True}}


def run(folder: Path, program: str, *words: str, options: tuple[str, ...] = (), **environment: str) -> str:
    """Run a program under `tensight run`; its standard error."""
    command = [sys.executable, "-m", "tensight", "run", "--no-page", *options, str(PROGRAMS / program), *words]
    return _run(folder, command, environment)


def bare(folder: Path, program: str, *words: str, **environment: str) -> str:
    """Run a program by itself."""
    return _run(folder, [sys.executable, str(PROGRAMS / program), *words], environment)


def _run(folder: Path, command: list[str], environment: dict[str, str]) -> str:
    clean = {key: value for key, value in os.environ.items() if "DUMP" not in key}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**clean, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    return f"{done.stderr}\nexit {done.returncode}"


def dumped(folder: Path, way: str = "e2e", **common: Any) -> tuple[str, ...]:
    """Options that dump with these settings."""
    file = folder / "dump.json"
    file.write_text(json.dumps(config(folder, way, **common)))
    return ("--dump", str(file))


def files(folder: Path, iteration: int, graph: int = 0, rank: int = 0) -> dict[str, Path]:
    """Files of an iteration by '{type}.{name}.{input|output}.{slot}'; the last where a tensor was written twice."""
    place = folder / "dump" / f"rank_{rank}" / "Net" / str(graph) / str(iteration)
    found: dict[str, Path] = {}
    for path in sorted(place.glob("*.npy"), key=lambda path: int(_NAME.fullmatch(path.name)[2])):
        head, _, io, slot = _NAME.fullmatch(path.name).groups()
        found[f"{head}.{io}.{slot}"] = path
    return found


def load(folder: Path, iteration: int, name: str) -> np.ndarray[Any, Any]:
    return np.load(files(folder, iteration)[name])
