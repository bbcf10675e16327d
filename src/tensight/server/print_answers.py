"""What the server answers about prints and samples of data."""

from __future__ import annotations

import msgspec

from tensight.records.print import BatchSamples, Print


class NumberedPrint(msgspec.Struct, frozen=True):
    """One call of `tensight.print`; numbers of a rank grow."""

    number: int
    print: Print


class NumberedSamples(msgspec.Struct, frozen=True):
    """Samples of one batch."""

    number: int
    batch: BatchSamples


ALL = (NumberedPrint, NumberedSamples)
