"""Small shared ways to match names and to show values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=512)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob), re.DOTALL)


def matches(glob: str, *names: str) -> bool:
    """Whether a glob matches one of the names; a scope matches everything below it.

    >>> matches("encoder.*", "encoder.0.attn"), matches("encoder", "encoder.0.attn"), matches("enc", "encoder")
    (True, True, False)
    """
    pattern = _pattern(glob)
    return any(pattern.match(name) or (glob and name.startswith(glob + ".")) for name in names)


def within(step: int, wanted: int | range | Iterable[int] | None) -> bool:
    """Whether a step is meant; None means every step."""
    if wanted is None:
        return True
    return step == wanted if isinstance(wanted, int) else step in wanted


def plain(value: Any) -> Any:
    """A value as JSON can carry it: NaN and infinities become the strings 'nan', 'inf', '-inf'.

    >>> plain({"actual": (1.0, float("-inf"))})
    {'actual': [1.0, '-inf']}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value


def number(value: float | int | None) -> str:
    """A number in few characters.

    >>> number(0.1234567), number(None), number(12)
    ('0.1235', '', '12')
    """
    if value is None:
        return ""
    return format(value, ".4g") if isinstance(value, float) else str(value)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table. Every cell is escaped: names come from models and are not to be trusted."""
    import html  # the table of entities behind it is not for a training to carry

    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def paragraph(*lines: object) -> str:
    """Lines of text as one escaped HTML paragraph."""
    import html

    return "<p>" + "<br>".join(html.escape(str(line)) for line in lines if line) + "</p>"
