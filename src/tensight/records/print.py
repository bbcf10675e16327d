"""What a training printed through `tensight.print`, and samples of its data."""

from __future__ import annotations

import msgspec

from tensight.records.source import Source


class PrintedValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value of a print: a text, or a tensor with its shape, dtype and a few statistics."""

    text: str  # as the terminal shows it; of a large tensor the corners
    shape: tuple[int, ...] | None = None  # None: no tensor
    dtype: str = ""
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    nan: int = 0
    inf: int = 0


class Print(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call of `tensight.print`."""

    step: int
    time: float
    values: tuple[PrintedValue, ...]
    source: Source | None = None
    rank: int = 0
    where: str = "eager"  # 'eager' | 'compiled' | 'graph'


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sample of a batch, as it can be shown. `kind` is 'image', 'text', 'table' or 'values'."""

    index: int
    kind: str
    label: str = ""
    text: str = ""
    png: bytes = b""  # of an image, at most 64 by 64
    columns: tuple[str, ...] = ()
    row: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None


class BatchSamples(msgspec.Struct, frozen=True, omit_defaults=True):
    """Samples of a batch, and what is odd about it."""

    step: int
    time: float
    shapes: tuple[str, ...]
    samples: tuple[Sample, ...]
    troubles: tuple[str, ...] = ()
    source: Source | None = None
    rank: int = 0
