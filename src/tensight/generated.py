"""Pages of the documentation that are made from the code: each is written, or checked, by one command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def keep(text: str, page: Path, command: str, arguments: Sequence[str] | None = None) -> int:
    """Write a page; with `--check` among the arguments write nothing, and answer 1 when it is stale.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = Path(folder) / "page.md"
    ...     keep("new", page, "make pages", []), keep("new", page, "make pages", ["--check"])
    (0, 0)
    """
    parser = argparse.ArgumentParser(prog=command, description=f"Write {page.name}.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the page is stale")
    parser.add_argument("--output", type=Path, default=page, help="where the page is")
    options = parser.parse_args(arguments)
    if not options.check:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text, encoding="utf-8")
        return 0
    known = options.output.read_text(encoding="utf-8") if options.output.exists() else ""
    if known != text:
        print(f"{options.output} is stale: run {command}", file=sys.stderr)
        return 1
    return 0
