"""Jobs for the harness, and what came of them."""

from __future__ import annotations

import atexit
import json
import os
import re
import select
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).parent / "harness.py"


@cache
def harness() -> subprocess.Popen[str]:
    """One for all tests; it ends with them, when its input is closed."""
    process = subprocess.Popen(
        [sys.executable, str(HARNESS)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(process.communicate)
    return process


def done(folder: Path, program: str, options: dict[str, Any], environment: dict[str, str]) -> tuple[int, str]:
    """Run a program; its exit code, and what it printed."""
    script = folder / "train.py"
    script.write_text(program)
    job = {"folder": str(folder), "script": str(script), "options": options, "environment": environment}
    process = harness()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(job) + "\n")
    process.stdin.flush()
    ready, _, _ = select.select([process.stdout], [], [], 240)
    if not ready:
        process.kill()
        harness.cache_clear()
        raise TimeoutError(f"{script}: not done after 240 s: {(folder / 'printed.txt').read_text()}")
    return int(process.stdout.readline()), (folder / "printed.txt").read_text()


def bare(folder: Path, program: str, **environment: str) -> str:
    """What a program prints without us."""
    code, printed = done(folder, program, {"bare": True}, environment)
    assert code == 0, printed
    return printed


def rewound(folder: Path, program: str, options: dict[str, Any] | None = None, **environment: str) -> dict[str, Any]:
    """A program with a rewinder: its replays, and that it left nothing behind."""
    code, printed = done(folder, program, options or {}, environment)
    assert (folder / "replays.json").exists(), printed
    result: dict[str, Any] = json.loads((folder / "replays.json").read_text())
    assert result["problems"] == []
    assert (result["children"], result["descriptors"]) == (0, 0)
    return {**result, "output": printed, "exit": code}


def watched(folder: Path, program: str, *arguments: str, **options: Any) -> dict[str, Any]:
    """A program as `tensight run` runs it: the report; and that it printed what it prints without us."""
    plain = bare(folder, program)
    code, printed = done(folder, program, {"run": list(arguments), **options}, {})
    assert (folder / "report.json").exists(), printed
    losses = [line for line in printed.splitlines() if re.fullmatch(r"\d+ -?(0x\S+|nan|inf)", line)]
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return {**report, "same": losses == plain.splitlines(), "printed": printed, "exit": code}
