"""How deep to look at the next step, so that watching costs no more than it may.

What looking costs is learnt by comparing the time of steps of different depth, since the cost of a hook cannot be seen
from inside it. Until enough is known, and as long as little time has been spent in all, every step is watched whole: a
run of a few seconds is never thinned.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tensight.records import Depth

FIRST = 10  # steps that are always watched whole: most faults show here
CREDIT = 0.5  # seconds of watching that are free, whatever their share
AROUND_TROUBLE = 5  # steps watched whole after something new went wrong
WINDOW = 15


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


class Budget:
    """Chooses the depth of each step. `percent` is what watching may add to the time of a step.

    >>> Budget(100).next_depth(5000) is Depth.ALL
    True
    """

    def __init__(self, percent: float, *, first: int = FIRST, credit: float = CREDIT) -> None:
        self.percent = percent
        self.spent = 0.0
        self.base = 0.0  # seconds of training without watching, as estimated
        self._first = first
        self._credit = credit
        self._times: dict[Depth, deque[float]] = {depth: deque(maxlen=WINDOW) for depth in Depth}
        self._last = {Depth.ALL: 0, Depth.GRADIENTS: 0}
        self._trouble_until = -1
        self.counts = dict.fromkeys(Depth, 0)
        self._light = 0.0
        self._refreshed = 0

    def finished(self, step: int, depth: Depth, seconds: float) -> None:
        """A step of a depth took so long, everything included."""
        self.counts[depth] += 1
        if step == 0:
            return  # the first step pays for lazy initialisation
        self._times[depth].append(seconds)
        if depth is Depth.LIGHT or step - self._refreshed >= WINDOW:
            self._refreshed = step
            light = self._times[Depth.LIGHT]
            self._light = _median(light) if light else 0.0
        cost = max(0.0, seconds - self._light) if self._light and depth is not Depth.LIGHT else 0.0
        if depth is not Depth.LIGHT:
            cost = min(cost, 3 * self.cost(depth) + 1e-4)  # a step that was slow for its own reasons is not ours
        self.spent += cost
        self.base += max(0.0, seconds - cost)

    def trouble(self, step: int) -> None:
        """Something new went wrong: look closely for a while."""
        self._trouble_until = step + AROUND_TROUBLE

    def cost(self, depth: Depth) -> float:
        """Seconds that looking so deep adds to a step; 0 while unknown."""
        light, deep = self._times[Depth.LIGHT], self._times[depth]
        if not light or not deep:
            return 0.0
        return max(0.0, _median(deep) - _median(light))

    def next_depth(self, step: int) -> Depth:
        if self.percent >= 100 or step < self._first or step <= self._trouble_until:
            return self._chose(step, Depth.ALL)
        if len(self._times[Depth.LIGHT]) < 3:
            # learn what a step costs without us; every second step, so that nothing long goes unseen
            return self._chose(step, Depth.ALL if step % 2 else Depth.LIGHT)
        if not self._times[Depth.GRADIENTS]:
            return self._chose(step, Depth.GRADIENTS)
        if self.spent <= self._credit:
            return self._chose(step, Depth.ALL)
        if step - self._last[Depth.ALL] >= self.period(Depth.ALL):
            return self._chose(step, Depth.ALL)
        if step - self._last[Depth.GRADIENTS] >= self.period(Depth.GRADIENTS):
            return self._chose(step, Depth.GRADIENTS)
        return Depth.LIGHT

    def period(self, depth: Depth) -> int:
        """Every how many steps a depth may be paid for, out of its half of the budget."""
        allowed = max(self._light * self.percent / 200, 1e-9)
        return max(1, -int(-self.cost(depth) // allowed))

    def _chose(self, step: int, depth: Depth) -> Depth:
        if depth is not Depth.LIGHT:
            self._last[depth] = step
        return depth

    @property
    def ratio(self) -> float | None:
        """Time with watching over time without; None while nothing is known."""
        if not self._light or not self.base:
            return None
        return 1.0 + self.spent / self.base

    def describe(self) -> str:
        """How sampling was thinned, in words."""
        whole, some, light = (self.counts[depth] for depth in (Depth.ALL, Depth.GRADIENTS, Depth.LIGHT))
        total = whole + some + light
        if not total or not (some or light):
            return "every step was watched whole"
        return (
            f"{whole} of {total} steps were watched whole, {some} more for gradients and weights,"
            f" {light} for the loss, to hold a budget of {self.percent:g} %"
        )
