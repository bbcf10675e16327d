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
program), `command(python, script)`, and `told(folder, errors)`, which gives the first thing the tool said, or None.
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


def listen(tool: ModuleType, program: Path, patience: float) -> tuple[dict[str, Any] | None, int]:
    """Runs one program under one tool, and gives the first thing the tool said, and the exit code."""
    with tempfile.TemporaryDirectory(prefix="case_") as name:
        folder = Path(name)
        shutil.copy(program, folder / "train.py")
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
        return tool.told(folder, done.stderr), done.returncode


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


def judge(tool: ModuleType, program: Path, patience: float) -> list[str]:
    """The marks of one tool on one program. One that begins with `trouble` says why there is none."""
    truth = json.loads((program / "truth.json").read_text())
    try:
        said, _ = listen(tool, program / "faulty.py", patience)
        twin, exit_code = listen(tool, program / "healthy.py", patience)
    except Exception as error:  # whatever a tool does, the others still have their turn
        return [f"trouble: {type(error).__name__}: {error}"]
    if twin is not None:
        return ["false alarm"]
    if exit_code:
        return [f"trouble: the healthy program ends with exit {exit_code} under it"]
    if said is None:
        return []
    marks = ["named"] * named(said, truth) + ["located"] * located(said, truth)
    return ["detected", *marks, *(["named and located"] if len(marks) == 2 else [])]


COLUMNS = ("detected", "named", "located", "named and located", "false alarm")


def table(found: list[ModuleType], missing: list[str], marks: dict[tuple[str, str], list[str]]) -> str:
    """The Markdown that goes into the page."""
    rows = [["tool", "programs", *COLUMNS], ["---"] * (len(COLUMNS) + 2)]
    left_out = list(missing)
    for tool in found:
        mine = [got for (title, _), got in marks.items() if title == tool.TITLE]
        troubles = [mark for got in mine for mark in got if mark.startswith("trouble")]
        counts = Counter(mark for got in mine for mark in got)
        if len(mine) > len(troubles):
            rows.append([tool.TITLE, str(len(mine) - len(troubles)), *(str(counts[column]) for column in COLUMNS)])
        if troubles:
            reason = troubles[0].removeprefix("trouble: ")
            left_out.append(f"{tool.TITLE}: {len(troubles)} programs could not be scored ({reason})")
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"
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
    marks = kept(given.keep)
    for program in programs:
        for tool in found:
            key = tool.TITLE, program.name
            if key not in marks:
                marks[key] = judge(tool, program, given.patience)
                print(f"{program.name:28s} {tool.TITLE:60s} {', '.join(marks[key]) or 'silent'}", flush=True)
                if given.keep is not None:
                    with given.keep.open("a") as file:
                        print(json.dumps({"tool": key[0], "program": key[1], "marks": marks[key]}), file=file)
    text = table(found, missing, marks)
    print("\n" + text)
    if given.write:
        page_tables.write(PAGE, BEGIN, END, text)


if __name__ == "__main__":
    main()
