"""The page's types are generated from the records."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_types", ROOT / "scripts" / "generate_types.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_types_are_fresh(generator: ModuleType) -> None:
    assert generator.main(["--check"]) == 0, "run `python scripts/generate_types.py`"


def test_stale_types_are_told_with_the_command_to_run(
    generator: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generator.TARGET = tmp_path / "types.ts"
    assert generator.main(["--check"]) == 1
    assert "python scripts/generate_types.py" in capsys.readouterr().err
    assert generator.main([]) == 0
    assert generator.main(["--check"]) == 0


def test_numbers_that_json_cannot_hold_are_in_the_types(generator: ModuleType) -> None:
    text = generator.generate()
    assert 'export type Num = number | "nan" | "inf" | "-inf";' in text
    assert "min?: Num | Int | null;" in text
    assert 'do: "run_to_node";' in text
    assert "generate_types" not in sys.modules
