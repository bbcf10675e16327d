"""Each example shows its ailment, and Tensight names it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMED = {
    "loss-is-nan": {"sqrt_zero_gradient"},
    "loss-does-not-fall": {"unregistered_parameters"},
    "loss-explodes": {"lr_too_high"},
    "dead-network": {"dead_relu"},
    "data-out-of-order": {"unshuffled_sorted_by_class"},
}


def ran(name: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tensight", "run", "--no-page", "--run-dir", "run", "--report", "report.json"]
    script = EXAMPLES / name / "train.py"
    subprocess.run([*command, str(script)], cwd=folder, capture_output=True, timeout=280, check=False)
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


@pytest.mark.parametrize("name", NAMED)
def test_the_first_finding_of_an_example_names_its_cause(name: str, tmp_path: Path) -> None:
    report = ran(name, tmp_path)
    assert report["findings"], name
    assert report["findings"][0]["fault"] in NAMED[name]


def test_the_example_that_crashes_is_told_which_layer_disagrees(tmp_path: Path) -> None:
    crash = ran("crash", tmp_path)["crash"]
    assert "head" in json.dumps(crash)
    assert "1352" in json.dumps(crash)


def test_every_example_is_listed_and_tested() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    listed = (EXAMPLES / "README.md").read_text()
    assert folders == {*NAMED, "crash"}
    assert all(f"`{name}`" in listed for name in folders)
