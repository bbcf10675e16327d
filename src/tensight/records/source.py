"""A line of the user's own code."""

from __future__ import annotations

import msgspec


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the user's own code: file as shown to the user, line counted from 1, the text of the line."""

    file: str
    line: int
    code: str = ""
    function: str = ""
