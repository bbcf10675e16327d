"""`tensight doctor`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import click

import tensight
from tensight.cli.printing import print_json, print_table


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    state: str  # 'ok' | 'missing' | 'limited'
    detail: str
    remedy: str = ""


def _package(name: str, purpose: str, extra: str) -> Finding:
    try:
        return Finding(name, "ok", f"{importlib.metadata.version(name)}: {purpose}")
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "missing", purpose, f"pip install 'tensight[{extra}]'")


# what some commands need beside Tensight: command → packages, extra that brings them
OPTIONAL = {
    "query, export": (("pyarrow", "duckdb"), "sql"),
    "tune": (("optuna", "PyYAML"), "tune"),
    "mcp": (("mcp",), "mcp"),
}


def _optional(command: str) -> Finding:
    packages, extra = OPTIONAL[command]
    there, missing = [], []
    for name in packages:
        try:
            there.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    what = f"tensight {command}"
    if missing:
        return Finding(what, "missing", f"needs {' and '.join(missing)}", f"pip install 'tensight[{extra}]'")
    return Finding(what, "ok", ", ".join(there))


def _kernel() -> Finding:
    from tensight.stats import native

    if native.available():
        return Finding("native kernel", "ok", native.describe())
    return Finding(
        "native kernel", "limited", native.describe(), "install a C++ compiler; until then statistics are slower"
    )


def _page() -> Finding:
    folder = Path(tensight.__file__).parent / "server" / "static"
    if (folder / "index.html").is_file():
        return Finding("page", "ok", "the built page is in the package")
    return Finding("page", "missing", "the built page is not in the package", "reinstall tensight")


def _rewind() -> Finding:
    if hasattr(os, "fork"):
        return Finding("rewind", "ok", "this system can fork, so a bad step on the CPU can be run again")
    return Finding("rewind", "limited", "this system cannot fork", "bad steps are explained without running them again")


def _numpy() -> Finding:
    version = importlib.metadata.version("numpy")
    try:
        importlib.metadata.version("mindspore")
    except importlib.metadata.PackageNotFoundError:
        return Finding("numpy", "ok", version)
    if int(version.split(".")[0]) >= 2:
        return Finding("numpy", "limited", f"{version}: MindSpore fails with it", "pip install 'numpy<2'")
    return Finding("numpy", "ok", version)


def look() -> list[Finding]:
    """Everything doctor looks at, in order."""
    free = shutil.disk_usage(".").free / 2**30
    return [
        Finding(
            "tensight", "ok", f"{tensight.__version__} on Python {platform.python_version()}, {platform.machine()}"
        ),
        _package("torch", "PyTorch trainings", "torch"),
        _package("mindspore", "MindSpore trainings", "mindspore"),
        _numpy(),
        _kernel(),
        _rewind(),
        _page(),
        Finding("disk", "ok", f"{free:.0f} GB free here")
        if free > 1
        else Finding("disk", "limited", f"{free:.1f} GB free here", "give --run-dir on another disk"),
        *(_optional(command) for command in OPTIONAL),
    ]


@click.command(short_help="Say what works here, and what to do about the rest.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(as_json: bool) -> None:
    """Say what is installed, what works here, and what to do about the rest.

    \b
    Example:  tensight doctor
    """
    found = look()
    if as_json:
        print_json({"checks": [asdict(one) for one in found]})
        return
    marks = {"ok": "✔", "limited": "!", "missing": "–"} if sys.stdout.encoding.lower().startswith("utf") else {}
    print_table(
        ("", "what", "state", "what to do"),
        [(marks.get(one.state, one.state), one.what, one.detail, one.remedy) for one in found],
    )
