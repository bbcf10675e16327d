"""How long a paused training waits for whoever controls it. No input, no output, no clock of its own."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

import msgspec

LEAVE = 600.0
"""Seconds without anybody after which a pause is over, unless TENSIGHT_LEAVE says another number."""


class Lease(msgspec.Struct, frozen=True):
    """One pause. `seen` is when somebody was there last; None when nobody has come yet: who has not come is not gone.

    Somebody is there while a page of the run is open, and for the moment in which a command comes.

    >>> lease = Lease(60.0).at(100.0, there=True).at(500.0, there=False)
    >>> lease.left(500.0), lease.left(530.0), lease.at(540.0, there=True).left(600.0)
    (60.0, 30.0, inf)
    >>> Lease(60.0).left(1e9)
    inf
    """

    seconds: float = LEAVE
    seen: float | None = None
    there: bool = False

    def at(self, now: float, *, there: bool) -> Lease:
        """The lease after a look: whoever was there at the last one has been there until now."""
        seen = now if there or self.there else self.seen
        return Lease(self.seconds, seen, there)

    def spoken(self, now: float) -> Lease:
        """Somebody has commanded something, whether by an open page or not."""
        return Lease(self.seconds, now, self.there)

    def left(self, now: float) -> float:
        """Seconds until the pause is over if nobody comes."""
        return math.inf if self.there or self.seen is None else self.seconds - (now - self.seen)


def patience(environ: Mapping[str, str] = os.environ) -> float:
    """Seconds that a paused training waits when nobody is there any more.

    >>> patience({}), patience({"TENSIGHT_LEAVE": "3600"}), patience({"TENSIGHT_LEAVE": "soon"})
    (600.0, 3600.0, 600.0)
    """
    try:
        seconds = float(environ.get("TENSIGHT_LEAVE", LEAVE))
    except ValueError:
        return LEAVE
    return LEAVE if math.isnan(seconds) else max(0.0, seconds)
