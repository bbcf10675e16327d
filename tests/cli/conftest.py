"""Runs of real scripts under `tensight run`, made once and read by many tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli import programs

Ran = subprocess.CompletedProcess[str]


def tensight(folder: Path, *words: str, **env: str) -> Ran:
    return subprocess.run(
        [sys.executable, "-m", "tensight", *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        timeout=180,
        stdin=subprocess.DEVNULL,
    )


def made(base: Path, name: str, text: str) -> tuple[Path, Ran]:
    folder = base / name
    folder.mkdir()
    (folder / "train.py").write_text(text)
    return folder, tensight(folder, "run", "--no-page", "--report", "report.json", "train.py")


@pytest.fixture(scope="session")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    return made(tmp_path_factory.mktemp("cli"), "healthy", programs.HEALTHY)


@pytest.fixture(scope="session")
def nan(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    return made(tmp_path_factory.mktemp("cli"), "nan", programs.NAN)


@pytest.fixture(scope="session")
def crash(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    return made(tmp_path_factory.mktemp("cli"), "crash", programs.CRASH)


@pytest.fixture
def run_tensight() -> Callable[..., Ran]:
    return tensight
