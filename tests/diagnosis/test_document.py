"""The page of findings, and the example of a rule of one's own."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from tensight.diagnosis import Engine
from tensight.diagnosis.document import CATEGORIES, PAGE, main, page
from tensight.diagnosis.rules import RULES, all_rules

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


def test_every_name_that_a_finding_may_have_is_on_the_page() -> None:
    said: set[str] = set()
    for file in Path(inspect.getfile(Engine)).parent.rglob("*.py"):
        for call in (node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Call)):
            named = [word.value for word in call.keywords if word.arg == "fault"]
            named += call.args[:1] if getattr(call.func, "id", "") == "Reason" else []
            words = (one.value for value in named for one in ast.walk(value) if isinstance(one, ast.Constant))
            said |= {word for word in words if isinstance(word, str) and re.fullmatch("[a-z0-9]+(_[a-z0-9]+)+", word)}
    assert {"log_of_zero", "nan_in_target", "warmup_never_ends"} <= said
    assert said <= set(re.findall("^### (.+)$", page(), re.M))


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
