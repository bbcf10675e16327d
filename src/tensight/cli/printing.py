"""What commands print: JSON for machines, tables for people."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tensight.runs.blocks import plain


def safe(value: Any) -> Any:
    """A value as JSON can carry it: NaN and infinities become strings.

    >>> safe({"a": [float("nan"), 1.5]})
    {'a': ['nan', 1.5]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {str(key): safe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [safe(item) for item in value]
    return value


def print_json(value: Any) -> None:
    """One object on standard output and nothing else there."""
    json.dump(safe(value), sys.stdout, ensure_ascii=False, indent=1, allow_nan=False)
    sys.stdout.write("\n")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]], *, title: str = "") -> None:
    table = Table(title=plain(title) or None, box=None, pad_edge=False, title_justify="left", header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(str(cell))) for cell in row))
    Console(soft_wrap=not sys.stdout.isatty(), highlight=False).print(table)
