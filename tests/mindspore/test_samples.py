"""What users of MindSpore's own guides write runs under `tensight run` and prints the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(1200)  # the first two tests wait for a process that runs all samples
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
        timeout=1100,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, ran.stderr
    parts = ran.stdout.split("\n=== ")[1:]
    assert parts[-1].startswith("end"), ran.stdout
    return {name: text for name, _, text in (part.partition("\n") for part in parts[:-1])}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return printed([], tmp_path_factory.mktemp("samples") / "plain")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    options = ["--no-page", "--run-dir", "run"]
    return printed(["-m", "tensight", "run", *options], tmp_path_factory.mktemp("samples") / "watched")


def test_every_sample_runs_by_itself(plain: dict[str, str]) -> None:
    assert sorted(plain) == SAMPLES
    assert len(SAMPLES) == 22
    for name, text in plain.items():
        assert text.strip(), f"{name} prints nothing"
        assert "Traceback" not in text, text


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_prints_the_same_under_tensight(name: str, plain: dict[str, str], watched: dict[str, str]) -> None:
    assert watched[name] == plain[name]
