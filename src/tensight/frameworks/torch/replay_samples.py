"""Which samples of the data set a batch holds: the loader's own sampler tells."""

from __future__ import annotations

import functools
from collections import deque
from typing import Any

from torch.utils.data import dataloader

_Iterator = dataloader._BaseDataLoaderIter
_WHERE = "_tensight_samples"


class Samples:
    """Notes the indices that loaders draw, and which of them the batch at hand was made of."""

    def __init__(self) -> None:
        self.current: list[int] | None = None  # of the batch that was handed out last
        self._sets: set[int] = set()  # data sets that this step was fed from
        original = _Iterator._next_index

        @functools.wraps(original)
        def drawn(iterator: Any) -> Any:
            indices = original(iterator)
            try:
                of, waiting = iterator.__dict__.get(_WHERE, (None, None))
                if of is not iterator._sampler_iter:  # a new epoch: what was drawn and never fetched is gone
                    waiting = deque()
                    iterator.__dict__[_WHERE] = (iterator._sampler_iter, waiting)
                waiting.append(indices)
            except Exception:
                iterator.__dict__.pop(_WHERE, None)
            return indices

        _Iterator._next_index = drawn
        self._put_on = (original, drawn)

    def fetched(self, iterator: Any) -> None:
        """The iterator has handed out its next batch, or failed to."""
        self.current = None
        self._sets.add(id(getattr(iterator, "_dataset", None)))
        _, waiting = iterator.__dict__.get(_WHERE, (None, None))
        if not waiting:
            return
        indices = waiting.popleft()
        if getattr(iterator, "_in_order", True):
            self.current = _numbers(indices)

    def at_hand(self) -> list[int] | None:
        """Of the step that runs; None when it was fed from several data sets, since rows could be of any."""
        return self.current if len(self._sets) < 2 else None

    def step_over(self) -> None:
        self._sets.clear()

    def drop(self) -> None:
        original, drawn = self._put_on
        if _Iterator._next_index is drawn:  # somebody may have wrapped it since
            _Iterator._next_index = original


def _numbers(indices: Any) -> list[int] | None:
    """Indices as numbers; None when a sampler speaks of something else.

    >>> _numbers([3, 5]), _numbers(None), _numbers(["a"])
    ([3, 5], None, None)
    """
    try:
        found = [int(index) for index in indices]
    except Exception:  # a sampler may hand out anything
        return None
    return found or None


def of_rows(samples: list[int] | None, rows: list[int], of: int) -> str:
    """The samples of some rows of a tensor, when its rows are those of the batch.

    >>> of_rows([17, 4, 203], [0, 2], 3), of_rows([17, 4], [0], 3)
    ('17,203', '')
    """
    if samples is None or len(samples) != of or of < 1:
        return ""
    return ",".join(str(samples[row]) for row in rows)
