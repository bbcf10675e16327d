"""What tools say about faulty trainings: the same programs under each of them, scored against the truth.

    python benchmarks/fault_tools.py --programs DIR                 every tool that is installed
    python benchmarks/fault_tools.py --programs DIR --tool tensight --only relu
    python benchmarks/fault_tools.py --programs DIR --keep marks.jsonl --write

The last writes the table into docs/explanation/fault-tools.md; with `--keep` an interrupted run goes on where it was.

DIR has one folder per program: faulty.py, healthy.py (the same training without the fault) and truth.json with `guilty`
(`lines`, `module`, `parameter`, `op`) and `must_name` (groups of patterns; one of each group has to occur). Programs
run unchanged, as `train.py` in an empty folder, so that no name gives the answer away.

  detected     the tool says something about the faulty program, and nothing about its healthy twin
  named        detected, and the first thing it says has a word of each group of `must_name`
  located      detected, and the first thing it says points to a guilty line, module, parameter or operator
  false alarm  it says something about the healthy twin

A tool is one file in `benchmarks/fault_tools/`: TITLE, NEEDS (its distribution), START (Python that runs before the
program), `command(python, script)`, and `told(folder, errors)`, which gives the first thing the tool said, or None. In
place of `told` it may have ROWS, several such functions by the title of their row, all told of one run. With REFERENCE
it finds the healthy twin as `reference.py` beside the program. A tool that needs its own Python is run by that one;
rows of tools that are not run stay in the table.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import page_tables

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "explanation" / "fault-tools.md"
BEGIN, END = "<!-- fault tools: begin -->", "<!-- fault tools: end -->"


def load(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"fault_tool_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tools(wanted: list[str] | None) -> tuple[list[ModuleType], list[str]]:
    """The tools that are installed, and a sentence for each that is not."""
    found, missing = [], []
    for file in sorted((HERE / "fault_tools").glob("*.py")):
        if wanted and file.stem not in wanted:
            continue
        tool = load(file)
        try:
            importlib.metadata.version(tool.NEEDS)
        except importlib.metadata.PackageNotFoundError:
            missing.append(f"{tool.TITLE}: {tool.NEEDS} is not installed")
        else:
            found.append(tool)
    return found, missing


Said = dict[str, Any] | None


def titles(tool: ModuleType) -> list[str]:
    """The rows of a tool."""
    return list(getattr(tool, "ROWS", {tool.TITLE: None}))


def listen(tool: ModuleType, program: Path, patience: float) -> tuple[dict[str, Said], int]:
    """Runs one program under one tool, and gives the first thing the tool said, by row, and the exit code."""
    with tempfile.TemporaryDirectory(prefix="case_") as name:
        folder = Path(name)
        shutil.copy(program, folder / "train.py")
        if getattr(tool, "REFERENCE", False):
            shutil.copy(program.with_name("healthy.py"), folder / "reference.py")
        environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        if tool.START:
            (folder / "start").mkdir()
            (folder / "start" / "sitecustomize.py").write_text(tool.START)
            paths = [str(folder / "start"), os.environ.get("PYTHONPATH", "")]
            environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        done = subprocess.run(
            tool.command(sys.executable, "train.py"),
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience,
            stdin=subprocess.DEVNULL,
        )
        rows = getattr(tool, "ROWS", {tool.TITLE: tool.told} if hasattr(tool, "told") else {})
        return {title: told(folder, done.stderr) for title, told in rows.items()}, done.returncode


def as_list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [value] if value else []


def named(said: dict[str, Any], truth: dict[str, Any]) -> bool:
    """
    >>> named({"words": "dead_relu: units never fire"}, {"must_name": [["dead|dying"], ["relu"]]})
    True
    """
    words = said["words"] + " " + said["words"].replace("_", " ")
    return all(any(re.search(pattern, words, re.IGNORECASE) for pattern in group) for group in truth["must_name"])


def located(said: dict[str, Any], truth: dict[str, Any]) -> bool:
    """
    >>> located({"op": "aten.sqrt"}, {"guilty": {"op": "sqrt"}}), located({"line": 3}, {"guilty": {"lines": [4]}})
    (True, False)
    """
    guilty = truth["guilty"]
    if said.get("line") in as_list(guilty.get("lines")):
        return True
    for key in ("module", "parameter"):
        if said.get(key) and str(said[key]) in map(str, as_list(guilty.get(key))):
            return True
    operator = str(said.get("op") or "").lower()
    return any(re.search(rf"\b{re.escape(str(op).lower())}", operator) for op in as_list(guilty.get("op")))


def judge(tool: ModuleType, program: Path, patience: float) -> dict[str, list[str]]:
    """The marks of one tool on one program, by row. One that begins with `trouble` says why there is none."""
    truth = json.loads((program / "truth.json").read_text())
    try:
        said, _ = listen(tool, program / "faulty.py", patience)
        twin, exit_code = listen(tool, program / "healthy.py", patience)
    except Exception as error:  # whatever a tool does, the others still have their turn
        return {title: [f"trouble: {type(error).__name__}: {error}"] for title in titles(tool)}
    return {title: marks(said[title], twin[title], exit_code, truth) for title in titles(tool)}


def marks(said: Said, twin: Said, exit_code: int, truth: dict[str, Any]) -> list[str]:
    """
    >>> marks({"words": "x"}, {"words": "y"}, 0, {})
    ['false alarm']
    """
    if twin is not None:
        return ["false alarm"]
    if exit_code:
        return [f"trouble: the healthy program ends with exit {exit_code} under it"]
    if said is None:
        return []
    right = ["named"] * named(said, truth) + ["located"] * located(said, truth)
    return ["detected", *right, *(["named and located"] if len(right) == 2 else [])]


COLUMNS = ("detected", "named", "located", "named and located", "false alarm")


def table(found: list[ModuleType], missing: list[str], scored: dict[tuple[str, str], list[str]], old: str = "") -> str:
    """The Markdown that goes into the page. Rows of the table there is stay, where their tool was not run now."""
    rows, left_out = {}, list(missing)
    for title in (title for tool in found for title in titles(tool)):
        mine = [got for (row, _), got in scored.items() if row == title]
        troubles = [mark for got in mine for mark in got if mark.startswith("trouble")]
        counts = Counter(mark for got in mine for mark in got)
        if len(mine) > len(troubles):
            rows[title] = [str(len(mine) - len(troubles)), *(str(counts[column]) for column in COLUMNS)]
        if troubles:
            reason = troubles[0].removeprefix("trouble: ")
            left_out.append(f"{title}: {len(troubles)} programs could not be scored ({reason})")
    cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in old.splitlines() if line[:1] == "|"]
    before = {row[0]: row[1:] for row in cells[2:] if len(row) == len(COLUMNS) + 2}
    lines = [["tool", "programs", *COLUMNS], ["---"] * (len(COLUMNS) + 2)]
    lines += [[title, *row] for title, row in sorted({**before, **rows}.items(), key=lambda row: row[0][:2] == "**")]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    if left_out:
        text += "\nLeft out:\n\n" + "\n".join(f"- {line}" for line in left_out) + "\n"
    return text


def kept(file: Path | None) -> dict[tuple[str, str], list[str]]:
    """The marks of an earlier run."""
    if file is None or not file.is_file():
        return {}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {(line["tool"], line["program"]): line["marks"] for line in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", default="", help="programs with this in their name")
    parser.add_argument("--tool", action="append", help="the name of a file in benchmarks/fault_tools; may be repeated")
    parser.add_argument("--patience", type=float, default=600, metavar="SECONDS", help="for one program")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="marks, as they come; what is in it is not run again")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(HERE.parent)}")
    given = parser.parse_args()
    programs = [
        truth.parent for truth in sorted(given.programs.glob("*/truth.json")) if given.only in truth.parent.name
    ]
    if not programs:
        raise SystemExit(f"{given.programs}: no folder with a truth.json in it")
    found, missing = tools(given.tool)
    scored = kept(given.keep)
    for program in programs:
        for tool in found:
            if all((title, program.name) in scored for title in titles(tool)):
                continue
            for title, got in judge(tool, program, given.patience).items():
                scored[title, program.name] = got
                print(f"{program.name:28s} {title:60s} {', '.join(got) or 'silent'}", flush=True)
                if given.keep is not None:
                    with given.keep.open("a") as file:
                        print(json.dumps({"tool": title, "program": program.name, "marks": got}), file=file)
    old = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    print("\n" + table(found, missing, scored))
    if given.write:
        page_tables.write(PAGE, BEGIN, END, table(found, [], scored, old))


if __name__ == "__main__":
    main()
