"""Keeps a part within its size: thins older segments, then drops the oldest."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

from tensight.store import layout
from tensight.store.thinning import thin

_PACE = 2  # old steps handled for each new one; each is handled twice, so one segment is done when the next is full


class Retention:
    """Decides at the close of a segment what to thin and what to drop, and does a little of it after each step.

    Once half of the bytes are used, closed segments are thinned, oldest first. Once all are used, the oldest thinned
    segments are dropped, but never the first: how a run began matters.
    """

    def __init__(self, part: Path, limit: int, important: Callable[[], set[int]]) -> None:
        self._part = part
        self._limit = limit
        self._important = important
        self._queued = -1  # number of the last segment that was thinned or waits for it
        self._waiting: list[int] = []
        self._current: int | None = None
        self._job: Generator[None, None, None] | None = None

    def segment_closed(self, newest: int) -> None:
        """A segment was closed; `newest` is the one that is written now."""
        sizes = self._sizes()
        if sum(sizes.values()) > self._limit // 2:
            fresh = [number for number in sizes if self._queued < number < newest - 1]
            self._waiting.extend(fresh)
            self._queued = max([self._queued, *fresh])
        self._drop(sizes)

    def work(self) -> None:
        """Do a little."""
        if self._job is None:
            if not self._waiting:
                return
            self._current = self._waiting.pop(0)
            self._job = thin(layout.segment(self._part, self._current), self._important())
        try:
            for _ in range(_PACE):
                next(self._job)
        except StopIteration:
            self._job = self._current = None
        except Exception:
            self._job = self._current = None
            raise

    def stop(self) -> None:
        """Give up what is under way; the segment stays as it is."""
        if self._job is not None:
            self._job.close()
            self._job = None

    def _sizes(self) -> dict[int, int]:
        sizes = {}
        for number in layout.segments(self._part):
            try:
                sizes[number] = layout.segment(self._part, number).stat().st_size
            except OSError:
                continue
        return sizes

    def _drop(self, sizes: dict[int, int]) -> None:
        total = sum(sizes.values())
        for number, size in sorted(sizes.items()):
            if total <= self._limit:
                return
            if 0 < number <= self._queued and number != self._current and number not in self._waiting:
                layout.segment(self._part, number).unlink(missing_ok=True)
                total -= size
