"""`docs/capabilities.md` names tests that are there, for every line of the checklist."""

from __future__ import annotations

import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "capabilities.md"
LINES = 226
ROW = re.compile(r"\| (\d+) \| (.+?) \| (.+) \|")
NAMED = re.compile(r"`((?:tests|benchmarks)/[^`]*)`")
LINK = re.compile(r"\]\(([^)]+)\)")


def rows() -> list[tuple[int, str, str]]:
    found = (ROW.fullmatch(line.replace("\\|", "/")) for line in PAGE.read_text(encoding="utf-8").splitlines())
    return [(int(row[1]), row[2], row[3]) for row in found if row]


@functools.cache
def named_in(path: Path) -> set[str]:
    """Names of the tests in a file, or in the files below a folder; of a shipped suite, the classes that take it up."""
    files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
    found = set()
    for file in files:
        found.update(
            re.findall(r"^\s*(?:async )?(?:def|class) ([Tt]est\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
        )
    return found


def wrong(shown_by: str) -> list[str]:
    """What of the names in a row is not there."""
    found = []
    for name in NAMED.findall(shown_by):
        file, _, test = name.partition("::")
        path = ROOT / file
        if not path.exists():
            found.append(f"{file} is not there")
        elif file.startswith("tests/") and not named_in(path):
            found.append(f"{file} holds no test")
        elif test and test not in named_in(path):
            found.append(f"{file} has no {test}")
    found += [f"{link} is not there" for link in LINK.findall(shown_by) if not (PAGE.parent / link).exists()]
    return found


def test_every_line_of_the_checklist_has_one_row() -> None:
    assert [number for number, _, _ in rows()] == list(range(1, LINES + 1))


def test_every_row_names_a_test_or_says_why_there_is_none() -> None:
    silent = [number for number, _, by in rows() if not NAMED.search(by) and not re.search(r"not (yet|verified)", by)]
    assert silent == []


def test_what_a_row_names_is_there() -> None:
    assert {number: found for number, _, by in rows() if (found := wrong(by))} == {}


def test_a_row_that_names_what_is_not_there_is_noticed() -> None:
    here = "tests/trust/test_capabilities.py"
    assert wrong(f"`{here}`, `{here}::test_what_a_row_names_is_there`, [the list](capabilities.md)") == []
    assert wrong(f"`tests/none.py`, `{here}::test_none`, `tests/trust/__init__.py`, [it](none.md)") == [
        "tests/none.py is not there",
        f"{here} has no test_none",
        "tests/trust/__init__.py holds no test",
        "none.md is not there",
    ]
