"""The page of findings, and the example of a rule of one's own."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import tensight
from tensight.diagnosis import Engine
from tensight.diagnosis.differing import DIVERGE
from tensight.diagnosis.document import CATEGORIES, PAGE, main, page
from tensight.diagnosis.rules import RULES, all_rules
from tensight.diagnosis.rules.nonfinite import _RISKS
from tensight.dump import concluding
from tests.diagnosis.builders import NAMES

HOWTO = PAGE.parents[1] / "howto" / "own-rule.md"


def test_the_page_is_up_to_date() -> None:
    assert main(["--check"]) == 0


def test_a_stale_page_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stale = tmp_path / "findings.md"
    stale.write_text("old")
    assert main(["--check", "--output", str(stale)]) == 1
    assert "python -m tensight.diagnosis.document" in capsys.readouterr().err


def test_the_page_can_be_written(tmp_path: Path) -> None:
    target = tmp_path / "reference" / "findings.md"
    assert main(["--output", str(target)]) == 0
    assert target.read_text(encoding="utf-8") == page()


def test_every_rule_has_a_category_of_the_page() -> None:
    assert {rule.category for rule in RULES} <= set(CATEGORIES)


def _said(file: Path) -> set[str]:
    """The names of faults that the code of a file may say: as they stand there, and as constants of its module."""
    root = Path(inspect.getfile(tensight)).parent
    module = importlib.import_module(".".join(("tensight", *file.relative_to(root).with_suffix("").parts)))
    said: list[object] = []
    for call in (node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Call)):
        made = getattr(call.func, "id", "")
        named = [word.value for word in call.keywords if word.arg == "fault"]
        named += call.args[:1] if made in ("Reason", "Finding") else []
        for one in (part for value in named for part in ast.walk(value)):
            said += [one.value] if isinstance(one, ast.Constant) else []
            said += [getattr(module, one.id, None)] if isinstance(one, ast.Name) else []
    return {word for word in said if isinstance(word, str) and re.fullmatch("[a-z0-9]+(_[a-z0-9]+)+", word)}


def test_every_name_that_a_finding_may_have_is_on_the_page() -> None:
    files = [*Path(inspect.getfile(Engine)).parent.rglob("*.py"), Path(inspect.getfile(concluding))]
    said = set().union(*map(_said, files))
    assert {"log_of_zero", "nan_in_target", "warmup_never_ends", DIVERGE} <= said
    assert said | {fault for _, fault, *_ in _RISKS} <= NAMES


def test_the_example_of_an_own_rule_does_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    text = HOWTO.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```\n", text, re.S)
    (said,) = re.findall(r"```\n(the loss fell.*?)\n```", text)
    space: dict[str, object] = {}
    for block in blocks:
        exec(block, space)
    assert capsys.readouterr().out.strip() == said


def test_a_rule_of_a_package_that_cannot_be_loaded_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name = "theirs"

        def load(self) -> object:
            raise ImportError("gone")

    monkeypatch.setattr("tensight.diagnosis.rules.entry_points", lambda group: [Entry()])
    seen: list[str] = []
    assert len(all_rules(lambda where, error: seen.append(f"{where}: {error}"))) == len(RULES)
    assert seen == ["rule theirs: gone"]
    assert Engine().findings == []
