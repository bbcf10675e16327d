"""A number over the steps of a run, in bounded memory."""

from __future__ import annotations

import math
from collections import deque

from tensight.diagnosis.words import median

FIRST = 256
RECENT = 256
BETWEEN = 1024


class Series:
    """The first values and the latest ones whole, those between thinned.

    >>> series = Series()
    >>> for step in range(5000): series.add(step, float(step))
    >>> series.first, series.last, series.count, series.least, len(series) < 2000
    (0.0, 4999.0, 5000, 0.0, True)
    """

    def __init__(self) -> None:
        self.count = 0
        self.least = math.inf  # of the finite values
        self.most = -math.inf
        self.last = math.nan
        self.last_step = -1
        self._first: list[tuple[int, float]] = []
        self._between: list[tuple[int, float]] = []
        self._recent: deque[tuple[int, float]] = deque()
        self._stride = 1

    def add(self, step: int, value: float) -> None:
        self.count += 1
        self.last = value
        self.last_step = step
        if value - value == 0.0:
            if value < self.least:
                self.least = value
            if value > self.most:
                self.most = value
        if len(self._first) < FIRST:
            self._first.append((step, value))
            return
        self._recent.append((step, value))
        if len(self._recent) > RECENT:
            old = self._recent.popleft()
            if self.count % self._stride == 0:
                self._between.append(old)
                if len(self._between) >= BETWEEN:
                    self._between = self._between[::2]
                    self._stride *= 2

    def __len__(self) -> int:
        return len(self._first) + len(self._between) + len(self._recent)

    @property
    def points(self) -> list[tuple[int, float]]:
        """(step, value), oldest first."""
        return [*self._first, *self._between, *self._recent]

    @property
    def first(self) -> float:
        return self._first[0][1] if self._first else math.nan

    @property
    def first_step(self) -> int:
        return self._first[0][0] if self._first else -1

    def trend(self, since: int = 0, share: float = 0.15) -> Trend | None:
        """The first part of the finite values from step `since` on against the last part."""
        values = [value for step, value in self.points if step >= since and math.isfinite(value)]
        if len(values) < 6:
            return None
        part = min(max(3, int(len(values) * share)), 64)
        begin, end = values[:part], values[-part:]
        middle = median(begin)
        noise = median([abs(value - middle) for value in begin]) * 1.5
        return Trend(middle, median(end), noise, len(values))


class Trend:
    """How far a number has come: medians of its beginning and its end, and the noise of the beginning."""

    def __init__(self, begin: float, end: float, noise: float, count: int) -> None:
        self.begin = begin
        self.end = end
        self.noise = noise
        self.count = count

    @property
    def fall(self) -> float:
        """By which share of its beginning it fell; negative when it rose."""
        return (self.begin - self.end) / (abs(self.begin) + 1e-30)

    def flat(self, share: float = 0.02) -> bool:
        """Neither fell nor rose by more than a share of itself, nor by more than its noise."""
        return abs(self.begin - self.end) <= max(share * abs(self.begin), min(self.noise, 0.05 * abs(self.begin)))
