"""A writer may be killed at any moment: what it has acknowledged is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kills.py"


def test_no_acknowledged_step_is_lost_and_no_run_unreadable_after_a_hundred_kills() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills", "100", "--seed", "7", "--json"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    assert result["problems"] == []
    assert result["kills"] == 100
    assert result["lost"] == 0
    assert result["unreadable"] == 0
    assert result["acknowledged"] > 1000
    assert done.returncode == 0
