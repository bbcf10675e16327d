"""What commands print: JSON for machines, tables for people."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tensight.runs.blocks import plain

if TYPE_CHECKING:
    from tensight.runs import Run

MOST_LOST = 10  # sentences
_UNBROKEN = 10_000  # columns: a file or a pipe has no edge to wrap at


def safe(value: Any) -> Any:
    """A value as JSON can carry it: NaN and infinities become strings, and text holds no half of a pair of surrogates.

    >>> safe({"a": [float("nan"), 1.5, chr(0xD800)]})
    {'a': ['nan', 1.5, '\\\\ud800']}
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {safe(str(key)): safe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [safe(item) for item in value]
    return value


def print_json(value: Any) -> None:
    """One object on standard output and nothing else there."""
    json.dump(safe(value), sys.stdout, ensure_ascii=False, indent=1, allow_nan=False)
    sys.stdout.write("\n")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> None:
    """A table as wide as the terminal, or unbroken where there is none, without columns that nothing fills."""
    cells = [[plain(str(cell)) for cell in row] for row in rows]
    filled = [place for place in range(len(headings)) if not cells or any(row[place] for row in cells)]
    table = Table(title=plain(title) or None, box=None, pad_edge=False, title_justify="left", header_style="bold")
    for place in filled:
        table.add_column(headings[place], overflow="fold")
    for row in cells:
        table.add_row(*(Text(row[place]) for place in filled))
    if sys.stdout.isatty():
        Console(highlight=False).print(table)
        return
    text = io.StringIO()
    Console(file=text, width=_UNBROKEN, highlight=False, no_color=True, force_terminal=False).print(table)
    for line in text.getvalue().splitlines():
        print(line.rstrip())


def print_lost(command: str, run: Run) -> None:
    """What a run lacks, on standard error: an answer about the rest must not pass for one about all of it."""
    lost = run.lost
    for line in lost[:MOST_LOST]:
        print(f"tensight {command}: {plain(line)}", file=sys.stderr)
    if len(lost) > MOST_LOST:
        more = len(lost) - MOST_LOST
        print(f"tensight {command}: and {more} more of this kind: tensight explain {run.path}", file=sys.stderr)
