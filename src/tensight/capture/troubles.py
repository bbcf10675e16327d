"""What goes wrong for the first time: the steps behind it are watched whole."""

from __future__ import annotations

from collections.abc import Sequence

from tensight.records import Observation

MOST_TROUBLES = 20  # that make the steps behind them be watched whole: a loss that breaks again and again costs no more


class Troubles:
    """Remembers which tensors were not finite, and whether the last loss was.

    >>> troubles = Troubles()
    >>> [troubles.are_new([], [loss]) for loss in (1.0, float("nan"), float("nan"), 1.0, float("inf"))]
    [False, True, False, False, True]
    """

    def __init__(self) -> None:
        self._bad: set[int] = set()  # tensors that were not finite in some step
        self._broken = False  # the last loss was not finite
        self._count = 0

    def are_new(self, seen: Sequence[Observation], losses: Sequence[float]) -> bool:
        """Whether a tensor of this step is bad that never was, or the loss is and was not the last time."""
        bad = {
            one.tensor for one in seen if (stats := one.stats).nan or stats.pos_inf or stats.neg_inf
        } - self._bad  # one by one: this is asked of all tensors of each step
        self._bad |= bad
        broken = any(value - value != 0 for value in losses)
        new = bool(bad) or (broken and not self._broken)
        self._broken = broken if losses else self._broken
        self._count += new
        return new and self._count <= MOST_TROUBLES
