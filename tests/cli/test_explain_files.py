"""`tensight explain` with files to write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tensight.cli import main

Ran = subprocess.CompletedProcess[str]


def test_a_run_becomes_one_html_file(nan: tuple[Path, Ran], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "out" / "run.html"
    main(["explain", "--html", str(page), str(nan[0] / "runs" / "train-1")])
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert "step 7" in text
    assert "train.py" in text
    said = capsys.readouterr()
    assert said.out == ""
    assert str(page) in said.err


def test_the_fault_is_shown_again_by_a_script_of_its_own(nan: tuple[Path, Ran], tmp_path: Path) -> None:
    main(["explain", "--reproduce", str(tmp_path / "here" / "fault.py"), str(nan[0] / "runs" / "train-1")])
    shutil.move(tmp_path / "here", tmp_path / "there")  # it needs nothing but the file beside it
    done = subprocess.run(
        [sys.executable, str(tmp_path / "there" / "fault.py")],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "-inf" in done.stdout.partition("result")[2]


def test_without_kept_inputs_one_sentence_says_why(
    healthy: tuple[Path, Ran], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["explain", "--reproduce", str(tmp_path / "fault.py"), str(healthy[0] / "runs" / "train-1")])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "nothing can be reproduced" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "fault.py").exists()
