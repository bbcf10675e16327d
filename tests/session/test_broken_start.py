"""When Tensight itself cannot start, the script runs all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BREAK = """
from tensight.session import session
def broken(*args, **kwargs):
    raise RuntimeError("injected")
session.Engine = broken
from tensight.cli import main
main(["run", "--no-page", "train.py"])
"""


def test_the_script_runs_and_its_exit_code_is_kept(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch, sys\nprint('trained', torch.zeros(1).item())\nsys.exit(5)\n")
    ran = subprocess.run([sys.executable, "-c", BREAK], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 5, ran.stderr
    assert ran.stdout == "trained 0.0\n"
    assert "injected" in ran.stderr
    assert "the training goes on" in ran.stderr
    assert "Traceback" not in ran.stderr
