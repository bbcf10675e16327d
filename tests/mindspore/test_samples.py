"""What users of MindSpore's own guides write runs under `tensight run` and prints the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "samples"
SAMPLES = sorted(path.stem for path in HERE.glob("[a-z]*.py") if path.stem != "run_all")


def printed(command: list[str], folder: Path) -> dict[str, str]:
    """What each sample has printed."""
    folder.mkdir()
    ran = subprocess.run(
        [sys.executable, *command, str(HERE / "run_all.py")],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, ran.stderr
    parts = ran.stdout.split("\n=== ")[1:]
    assert parts[-1].startswith("end"), ran.stdout
    return {name: text for name, _, text in (part.partition("\n") for part in parts[:-1])}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    folder = tmp_path_factory.mktemp("samples")
    watched = ["-m", "tensight", "run", "--no-page", "--run-dir", "run"]
    return printed([], folder / "plain"), printed(watched, folder / "watched")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_prints_the_same_under_tensight(name: str, outputs: tuple[dict[str, str], dict[str, str]]) -> None:
    plain, watched = outputs
    assert "Traceback" not in plain[name], plain[name]
    assert plain[name].strip()
    assert watched[name] == plain[name]


def test_every_sample_was_run(outputs: tuple[dict[str, str], dict[str, str]]) -> None:
    assert sorted(outputs[0]) == sorted(outputs[1]) == SAMPLES
    assert len(SAMPLES) == 22
