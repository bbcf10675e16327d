"""The published table of what works on which framework."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tensight.frameworks import table

ROOT = Path(__file__).parents[2]


def test_the_published_table_is_fresh() -> None:
    page = ROOT / table.PAGE
    assert page.read_text(encoding="utf-8") == table.render(), "run: python -m tensight.frameworks.table"


def test_a_stale_table_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert table.main(["--check"]) == 1
    assert "python -m tensight.frameworks.table" in capsys.readouterr().err
    assert table.main([]) == 0
    assert table.main(["--check"]) == 0


def test_every_reason_is_on_the_page() -> None:
    page = table.render()
    for framework in ("torch", "mindspore"):
        for why in table.published(framework).values():
            assert why in page


def test_the_table_needs_no_framework() -> None:
    code = (
        "import sys; from tensight.frameworks import table; table.render(); "
        "print([name for name in ('torch', 'mindspore') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
