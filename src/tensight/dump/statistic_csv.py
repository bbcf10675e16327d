"""Rows of statistic.csv, as MindSpore writes them."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensight.dump.layout import COLUMNS
from tensight.dump.naming import DTYPES, Label
from tensight.dump.settings import CATEGORIES, USUAL_CATEGORIES
from tensight.records import Stats

Array = np.ndarray[Any, Any]
_ITEM_SIZES = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1}


def header(categories: Sequence[str]) -> str:
    """
    >>> header(["max", "md5"]).split(",")[-2:]
    ['Max Value', 'MD5\\n']
    """
    return ",".join((*COLUMNS, *(CATEGORIES[one] for one in categories))) + "\n"


class Rows:
    """Makes rows; what is the same in every step is made once for each tensor."""

    def __init__(self, categories: Sequence[str]) -> None:
        self._categories = tuple(categories)
        self._usual = self._categories == USUAL_CATEGORIES
        self._frames: dict[tuple[Label, str, tuple[int, ...]], tuple[str, str]] = {}

    def row(
        self, label: Label, time: int, dtype: str, shape: tuple[int, ...], stats: Stats, value: Array | None = None
    ) -> str:
        begin, end = self.frame(label, dtype, shape, stats.count)
        return f"{begin}{time}{end}{self.numbers(stats, value)}\n"

    def frame(self, label: Label, dtype: str, shape: tuple[int, ...], count: int) -> tuple[str, str]:
        """What stands before the time and between it and the numbers: the same in every step."""
        key = (label, dtype, shape)
        known = self._frames.get(key)
        if known is None:
            size = count * item_size(dtype)
            dimensions = ",".join(map(str, shape))
            known = self._frames[key] = (
                f"{_cell(label.type)},{_cell(label.name)},0,0,",
                f',{label.io},{label.slot},{size},{DTYPES.get(dtype, dtype)},"({dimensions})"',
            )
        return known

    def numbers(self, stats: Stats, value: Array | None = None) -> str:
        """The chosen statistics, each behind a comma."""
        if self._usual and stats.max is not None:  # nearly always
            return f",{stats.max!r},{stats.min!r},{stats.l2!r}"
        return "".join([f",{_number(stats, name, value)}" for name in self._categories])


def _number(stats: Stats, name: str, value: Array | None) -> str:
    """
    >>> _number(Stats(count=2, max=1.5), "max", None), _number(Stats(count=2, nan=2), "max", None)
    ('1.5', 'nan')
    """
    if name == "max":
        return _extreme(stats, stats.max)
    if name == "min":
        return _extreme(stats, stats.min)
    if name == "avg":
        return _extreme(stats, stats.mean)
    if name == "l2norm":
        return _extreme(stats, stats.l2)
    if name == "count":
        return str(stats.count)
    if name == "md5":
        return "" if value is None else md5(value)
    counts = {
        "negative zero count": stats.negative,
        "positive zero count": stats.positive,
        "nan count": stats.nan,
        "negative inf count": stats.neg_inf,
        "positive inf count": stats.pos_inf,
        "zero count": stats.zero,
    }
    return str(counts[name])


def _extreme(stats: Stats, value: float | int | None) -> str:
    if value is None or not stats.finite:
        return "nan" if stats.nan else "inf" if stats.pos_inf else "-inf" if stats.neg_inf else ""
    return repr(value)


def md5(value: Array) -> str:
    """Of the values as they lie in memory."""
    return hashlib.md5(np.ascontiguousarray(value).tobytes(), usedforsecurity=False).hexdigest()


def item_size(dtype: str) -> int:
    """
    >>> item_size("bfloat16"), item_size("float64")
    (2, 8)
    """
    if dtype in _ITEM_SIZES:
        return _ITEM_SIZES[dtype]
    try:
        return int(np.dtype(dtype).itemsize)
    except TypeError:
        return 1


def _cell(text: str) -> str:
    if not any(char in text for char in ',"\r\n'):
        return text
    made = io.StringIO()
    csv.writer(made, lineterminator="").writerow([text])
    return made.getvalue()
