"""What the documentation shows works: its commands exist as written, its files are read, its Python runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from tensight.cli import COMMANDS, Commands
from tensight.watchpoints import spec
from tests.trust.programs import LONG

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "examples/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```+(\S*)\n(.*?)^```+$", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(?:\$ )?(?:\w+=\S+ )*(?:torchrun .* -m |msrun .* -m |python -m )?tensight ([a-z].*)")
ELSEWHERE = {"own-condition.md", "own-rule.md"}  # run by the tests of conditions and rules


class Block(NamedTuple):
    page: str
    language: str
    text: str


def blocks(*languages: str) -> list[Block]:
    found = [
        Block(page.relative_to(ROOT).as_posix(), one[1], one[2])
        for page in PAGES
        for one in BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]
    return [one for one in found if one.language in languages]


def calls() -> list[tuple[str, str]]:
    """Every line that calls `tensight`, without what explains it."""
    found = []
    for block in blocks("", "console", "text"):
        for line in block.text.splitlines():
            call = CALL.fullmatch(re.split(r"\s{3,}|\s+#\s", line.strip())[0])
            if call:
                found.append((block.page, call[1]))
    return found


CALLS = calls()


def parsed(call: str) -> dict[str, Any]:
    """What a call means; an option that is not there is an error."""
    command: click.Command = Commands(name="tensight")
    words = shlex.split(call)
    context = click.Context(command, info_name="tensight")
    while isinstance(command, click.Group):
        name = words.pop(0)
        inner = command.get_command(context, name)
        assert inner is not None, f"there is no command {name}"
        command, context = inner, click.Context(inner, context, name, **inner.context_settings)
    if "--help" in words:
        return {}
    values, rest, _ = command.make_parser(context).parse_args(words)
    assert not rest, f"{rest} is too much"
    return values


@pytest.mark.parametrize(("page", "call"), CALLS, ids=[call for _, call in CALLS])
def test_a_command_in_the_documentation_can_be_called_as_written(page: str, call: str) -> None:
    values = parsed(call)
    for text in values.get("watch") or ():
        assert spec.parse(text)


def test_every_command_is_shown_somewhere() -> None:
    assert set(COMMANDS) - {call.split()[0] for _, call in CALLS} == set()


@pytest.mark.parametrize("call", ["run --no-such train.py", "rub train.py", "doctor now"])
def test_a_call_that_is_wrong_is_noticed(call: str) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        parsed(call)


def test_files_in_the_documentation_are_files_of_their_kind(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    readers = {"json": json.loads, "yaml": yaml.safe_load, "toml": lambda text: toml(text, tmp_path)}
    for block in blocks(*readers):
        assert readers[block.language](block.text), block


LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"`((?:tests|benchmarks|docs|scripts|examples|src|web)/[^`\s<*{]*)`|python (benchmarks/[\w./]+)")
ALL = [*PAGES, ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def headings(page: Path) -> set[str]:
    """The anchors of a page: those that GitHub and Sphinx make of its headings, and those it sets itself."""
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", line.strip().lower()).replace(" ", "-") for line in lines}
    return made | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


def dead(page: Path, text: str) -> list[str]:
    """What a page names that is not there: pages, places in them, files of the project."""
    found = []
    for link in LINK.findall(BLOCK.sub("", text)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if link.startswith(("http", "mailto")):
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in headings(target)):
            found.append(link)
    for one, other in NAMED.findall(text):
        if not (ROOT / (one or other).partition("::")[0]).exists():
            found.append(one or other)
    return found


@pytest.mark.parametrize("page", ALL, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_link_leads_nowhere(page: Path) -> None:
    assert dead(page, page.read_text(encoding="utf-8")) == []


def test_a_link_that_leads_nowhere_is_noticed() -> None:
    text = "[a](none.md) [b](README.md#none) [c](README.md#limits) `tests/none.py` python benchmarks/none.py\n"
    assert dead(ROOT / "README.md", text) == ["none.md", "README.md#none", "tests/none.py", "benchmarks/none.py"]


def toml(text: str, folder: Path) -> object:
    (folder / "watch.toml").write_text(text, encoding="utf-8")
    return spec.load(folder / "watch.toml") if "[[watch" in text else text


def pieces() -> Iterator[tuple[str, list[str]]]:
    """The Python of each page, in its order."""
    for page in dict.fromkeys(one.page for one in blocks("python")):
        if page.rpartition("/")[2] not in ELSEWHERE:
            yield page, [one.text for one in blocks("python") if one.page == page]


PYTHON = dict(pieces())


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What went wrong on each page; '' where nothing did. All run in one process, each with names of its own."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "pages.json").write_text(json.dumps(PYTHON), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tests.trust.pages", str(folder)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TENSIGHT_STATE": str(folder / "state")},
        capture_output=True,
        text=True,
        timeout=4 * LONG,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads((folder / "said.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.timeout(5 * LONG)
@pytest.mark.parametrize("page", PYTHON)
def test_the_python_of_a_page_runs(page: str, ran: dict[str, str]) -> None:
    assert ran[page] == ""
