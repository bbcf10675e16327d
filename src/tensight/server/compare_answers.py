"""What the server answers about two runs."""

from __future__ import annotations

import msgspec

from tensight.compare.result import Comparison


class Compared(msgspec.Struct, frozen=True):
    """Run `a` against run `b`."""

    a: str
    b: str
    found: Comparison


ALL = (Compared,)
