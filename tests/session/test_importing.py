"""A framework is noticed right after the user's program has imported it, and never imported by us."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tensight.session.importing import Importing


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "pretend_framework").mkdir()
    (tmp_path / "pretend_framework" / "__init__.py").write_text(
        "from pretend_framework.inner import value\nready = True\n"
    )
    (tmp_path / "pretend_framework" / "inner.py").write_text("value = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "pretend_framework"
    for name in [name for name in sys.modules if name.startswith("pretend_framework")]:
        del sys.modules[name]


def test_it_is_told_once_and_after_the_module_has_run(package: str) -> None:
    told: list[bool] = []
    with Importing([package], lambda name: told.append(sys.modules[name].ready)):
        __import__(package)
        __import__(package)
    assert told == [True]


def test_a_module_imported_before_is_told_at_once(package: str) -> None:
    __import__(package)
    told: list[str] = []
    with Importing([package], told.append):
        assert told == [package]


def test_the_module_does_not_see_us(package: str) -> None:
    with Importing([package], lambda name: None):
        module = __import__(package)
    assert type(module.__spec__.loader).__module__.startswith(("importlib", "_frozen_importlib"))
    assert type(module.__loader__).__module__.startswith(("importlib", "_frozen_importlib"))


def test_an_import_that_fails_raises_as_before_and_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pretend_broken.py").write_text("raise ValueError('broken')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    told: list[str] = []
    with Importing(["pretend_broken"], told.append), pytest.raises(ValueError, match="broken"):
        __import__("pretend_broken")
    assert not told


def test_a_missing_module_is_missing_as_before() -> None:
    with Importing(["pretend_missing"], lambda name: None), pytest.raises(ModuleNotFoundError):
        __import__("pretend_missing")


def test_nothing_is_left_behind() -> None:
    before = list(sys.meta_path)
    with Importing(["pretend_missing"], lambda name: None):
        pass
    assert sys.meta_path == before
