"""Baseline files: findings that are known and need not be told again.

A JSON or TOML file with a list `findings` of keys ('dead_relu@encoder.0'). A report is accepted too, and a bare list
of keys.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec

from tensight.errors import UsageError
from tensight.files import replacing
from tensight.records import Finding, Where

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MUTED = "muted.json"


def load_baseline(path: str | Path) -> set[str]:
    """Keys of the known findings in a file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        data: Any = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise UsageError(f"the baseline {path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the baseline {path} is not well formed: {error}") from error
    listed = data.get("findings") if isinstance(data, dict) else data
    if not isinstance(listed, list):
        raise UsageError(f"the baseline {path} has no list 'findings' of keys such as 'dead_relu@encoder.0'")
    return {_key(entry, path) for entry in listed}


def write_baseline(findings: Iterable[Finding], path: str | Path) -> None:
    """Write the keys of findings, so that a later run can leave them out; .toml gives TOML, else JSON."""
    path = Path(path)
    keys = sorted({finding.key for finding in findings})
    if path.suffix == ".toml":
        lines = "".join(f"    {_toml(key)},\n" for key in keys)
        text = f"# findings that are known; delete a line to be told again\nfindings = [\n{lines}]\n"
    else:
        text = json.dumps({"findings": keys}, indent=1, ensure_ascii=False) + "\n"
    try:
        with replacing(path) as new:
            new.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"the baseline {path} cannot be written: {error.strerror or error}") from error


def muted_beside(run: Path) -> set[str]:
    """Keys that were muted on the page, which keeps them in the run's folder; none when nothing was."""
    path = run / MUTED
    try:
        return load_baseline(path) if path.exists() else set()
    except UsageError:
        return set()  # an unreadable list mutes nothing: better told twice than never


def mute(findings: Iterable[Finding], baseline: Collection[str]) -> list[Finding]:
    """The findings, with those that the baseline knows marked as muted."""
    return [
        msgspec.structs.replace(finding, muted=True) if finding.key in baseline else finding for finding in findings
    ]


def _key(entry: Any, path: Path) -> str:
    if isinstance(entry, str):
        return entry
    if isinstance(entry, dict) and isinstance(entry.get("fault"), str):  # a finding as reports hold it
        where = entry.get("where")
        where = where if isinstance(where, dict) else {}
        place = Where(module=where.get("module"), parameter=where.get("parameter"))
        return Finding(entry["fault"], "", "", 0.0, 0, place, "").key
    raise UsageError(f"the baseline {path} has an entry that is no key of a finding: {entry!r}")


def _toml(text: str) -> str:
    # JSON's quoting is TOML's too, but for the one control character that JSON leaves as it is
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
