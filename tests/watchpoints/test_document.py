"""The reference page and the advice come from the classes."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import tensight.watchpoints
from tensight.watchpoints import document
from tensight.watchpoints.advice import advice
from tensight.watchpoints.catalogue import CLASSES, CONDITIONS
from tensight.watchpoints.checker import Checker
from tests.watchpoints.records import NAN, Training, tensor


def test_the_page_in_the_documentation_is_current():
    assert document.main(["--check"]) == 0, f"run {document.COMMAND}"


def test_a_stale_page_is_told_with_the_command_that_mends_it(tmp_path, capsys):
    page = tmp_path / "conditions.md"
    assert document.main(["--check", "--output", str(page)]) == 1
    assert document.COMMAND in capsys.readouterr().err
    assert document.main(["--output", str(page)]) == 0
    assert document.main(["--check", "--output", str(page)]) == 0
    page.write_text(page.read_text() + "more")
    assert document.main(["--check", "--output", str(page)]) == 1


def test_every_condition_and_setting_is_on_the_page():
    page = document.page()
    for condition in CLASSES.values():
        assert f"({condition.code})" in page
        assert all(f"`{setting.name}`" in page for setting in condition.settings)


def test_advice_says_what_was_measured_and_what_to_do():
    checker = Checker([CONDITIONS["TO"]().watchpoint(1), CONDITIONS["TL"](mean_gt=0.5).watchpoint(2)])
    overflow, large = (advice(hit) for hit in Training(checker, tensor()).step(NAN))
    assert overflow.measured == ("3 nan",)
    assert overflow.try_ == CONDITIONS["TO"].try_
    assert large.measured == ("mean 0.7, set to > 0.5", "judged on the finite 97 of 100 values (3 NaN)")


def test_no_two_conditions_share_their_advice():
    assert len({condition.causes for condition in CLASSES.values()}) == len(CLASSES)


MODULES = sorted(
    module.name for module in pkgutil.walk_packages(tensight.watchpoints.__path__, "tensight.watchpoints.")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_hold(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_condition_of_the_how_to_page_passes_the_suite(monkeypatch):
    monkeypatch.setattr("tensight.watchpoints.catalogue.CONDITIONS", (known := dict(CONDITIONS)))
    monkeypatch.setattr("tensight.testing.condition_suite.CONDITIONS", known)
    page = (document.PAGE.parents[1] / "howto" / "own-condition.md").read_text(encoding="utf-8")
    blocks = [block.partition("```")[0] for block in page.split("```python\n")[1:]]
    space: dict[str, type] = {"__name__": "own_condition"}  # type: ignore[dict-item]
    for block in blocks:
        exec(compile(block, "own-condition.md", "exec"), space)
    suite = space["TestOneSided"]()
    checks = [name for name in dir(suite) if name.startswith("test_")]
    assert len(checks) > 10
    for name in checks:
        getattr(suite, name)()
