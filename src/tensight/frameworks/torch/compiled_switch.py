"""Whether compiled code is looked at in this step. It asks before every probe: a look at a list costs nothing."""

from __future__ import annotations

DEEP: list[bool] = []
"""Empty while nobody looks. Imported by compiled code, which outlives whoever has compiled it."""


def look(deep: bool) -> None:
    """From now on compiled code calls its probes, or passes them by.

    >>> look(True), bool(DEEP)
    (None, True)
    >>> look(False), bool(DEEP)
    (None, False)
    """
    DEEP[:] = [True] if deep else []
