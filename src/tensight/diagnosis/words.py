"""Numbers and places as a user reads them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tensight.records import Source, Where


def number(value: float | int | None) -> str:
    """A number with as many digits as one wants to read.

    >>> number(0.000123456), number(1234567.0), number(3), number(float("inf")), number(12179.6)
    ('0.000123', '1.23e+06', '3', 'inf', '12180')
    """
    if value is None:
        return "unknown"
    if isinstance(value, int) or (math.isfinite(value) and value == int(value) and abs(value) < 1e5):
        return str(int(value))
    if math.isfinite(value) and 100 <= abs(value) < 1e5:
        return f"{value:.0f}"
    return f"{value:.3g}"


def bad_kind(nan: float, infinite: float, below: float) -> str:
    """What bad values are, in a word, from how many are NaN, infinite, and -inf among those.

    >>> bad_kind(1, 2, 2), bad_kind(0, 2, 2), bad_kind(0, 2, 1)
    ('NaN', '-inf', 'inf')
    """
    return "NaN" if nan else "-inf" if below and below == infinite else "inf"


def some(names: Iterable[str], most: int = 3) -> str:
    """A few names of many.

    >>> some(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    listed = list(names)
    if len(listed) <= most:
        return ", ".join(listed)
    return f"{', '.join(listed[:most])} and {len(listed) - most} more"


def per_second(seconds: float) -> str:
    """How often in a second what takes so long, without an exponent.

    >>> per_second(0.00096), per_second(0.0174), per_second(8.0)
    ('1,042', '57.5', '0.125')
    """
    rate = 1 / max(seconds, 1e-9)
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def plural(count: int, noun: str) -> str:
    """
    >>> plural(1, "step"), plural(3, "pass")
    ('1 step', '3 passes')
    """
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}{'es' if noun.endswith(('s', 'x')) else 's'}"


def called(path: str) -> str:
    """A module as one says it: the root has no path.

    >>> called("encoder.0"), called("")
    ('encoder.0', 'the model')
    """
    return path or "the model"


def where(
    source: Source | None = None,
    *,
    module: str | None = None,
    op: str | None = None,
    parameter: str | None = None,
    network: str | None = None,
) -> Where:
    """A place, with the user's line where one is known."""
    return Where(
        module=module,
        op=op or None,
        parameter=parameter or None,
        file=source.file if source else None,
        line=source.line if source else None,
        code=source.code or None if source else None,
        network=network or None,
    )


def line(source: Source | None) -> str:
    """A line as a reader finds it: 'train.py:31'; '' when unknown.

    >>> line(Source("train.py", 31)), line(None)
    ('train.py:31', '')
    """
    return f"{source.file}:{source.line}" if source else ""


def at(source: Source | None) -> str:
    """' (train.py:31)', or nothing."""
    return f" ({line(source)})" if source else ""


def shape(text: str) -> tuple[int, ...] | None:
    """A shape as events write it.

    >>> shape("64x1"), shape("64"), shape(""), shape("?")
    ((64, 1), (64,), (), None)
    """
    if not text:
        return ()
    parts = text.split("x")
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else None


def median(values: Sequence[float]) -> float:
    """The middle value; 0 when there is none.

    >>> median([3.0, 1.0, 2.0]), median([])
    (2.0, 0.0)
    """
    if not values:
        return 0.0
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
