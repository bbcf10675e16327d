"""What the server answers about the values of tensors."""

from __future__ import annotations

import msgspec

from tensight.records import Hit, Observation, TensorInfo
from tensight.records.statistics import Stats
from tensight.runs.picture import ValueDifference, ValueHistogram


class TensorPage(msgspec.Struct, frozen=True):
    """A tensor: what was seen of it at a step and before, where its values were kept, and what was hit."""

    info: TensorInfo
    name: str
    rank: int
    step: int
    seen: Observation | None
    seen_step: int
    before: Observation | None
    before_step: int
    kept: tuple[int, ...]  # steps whose values were kept
    hits: tuple[Hit, ...]  # at the step of `seen`
    ranks: tuple[int, ...]
    images: int = 0  # how many images it holds


class TensorValues(msgspec.Struct, frozen=True):
    """Values of a slice: a page of them as rows and columns, their statistics, or those of a difference."""

    slice: str
    shape: tuple[int, ...]
    dtype: str
    stats: Stats
    histogram: ValueHistogram | None
    quantiles: dict[str, float]
    rows: int  # of the slice, as a matrix
    columns: int
    row: int  # where the page begins
    column: int
    cells: tuple[tuple[float | int, ...], ...]
    difference: ValueDifference | None = None
    other: str = ""  # what it was compared with


ALL = (TensorPage, TensorValues)
