"""A command line called in this process."""

from __future__ import annotations

import pytest

from tensight.cli import main


def called(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str, int]:
    """What it prints, what it says on its error output, and its exit code."""
    code = 0
    try:
        main(words)
    except SystemExit as stop:
        code = int(str(stop.code or 0))
    out, err = capsys.readouterr()
    return out, err, code
