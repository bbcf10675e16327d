"""`import tensight` is quick and imports no framework."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import time, sys
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
print(sorted(set(sys.modules) & {{"torch", "mindspore"}}))
"""


def fresh(module: str) -> tuple[float, str]:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(module=module)], capture_output=True, text=True, check=True
    )
    seconds, frameworks = done.stdout.split("\n")[:2]
    return float(seconds), frameworks


def test_importing_tensight_takes_under_300_ms_and_imports_no_framework() -> None:
    results = [fresh("tensight") for _ in range(3)]
    assert min(seconds for seconds, _ in results) < 0.3
    assert {frameworks for _, frameworks in results} == {"[]"}


def test_reading_runs_needs_no_framework() -> None:
    assert fresh("tensight.runs, tensight.server, tensight.watchpoints.catalogue, tensight.diagnosis.engine")[1] == "[]"


def test_the_command_line_imports_no_framework() -> None:
    assert fresh("tensight.cli.run, tensight.cli.explain, tensight.cli.doctor")[1] == "[]"


def test_this_check_can_fail() -> None:
    assert fresh("torch")[1] == "['torch']"
