"""What a standing copy costs the training: the fork, the pages that are copied when the next step writes, its end."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from statistics import median

_WINDOW = 15


class Pace:
    """Measures the step after each fork against the others.

    In CPU time: copying pages takes the process's own, and a machine that is busy with something else, or a script that
    waits, must not hide it.

    >>> times = iter([0.0, 1.0, 1.0, 2.0, 2.0, 5.0])
    >>> pace = Pace(clock=lambda: next(times))
    >>> pace.go_on(); pace.ended(0)
    False
    >>> pace.go_on(); pace.ended(1)
    False
    >>> pace.forked(2, 0.5); pace.go_on(); pace.ended(2)
    True
    >>> pace.cost
    2.5
    """

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.cost = 0.0  # seconds of the last copy
        self._clock = clock
        self._seconds: deque[float] = deque(maxlen=_WINDOW)  # of steps that no fork was made before
        self._since: float | None = None
        self._next = 0
        self._forked: tuple[int, float] | None = None
        self._after = 0.0  # what the step after a fork took more than others, the last time
        self._page = 0.0  # what a page costs that is copied
        self._copy = 0.0  # CPU seconds that the last copy to leave has used: it takes them from the training's cores

    def forked(self, step: int, seconds: float, page: float = 0.0) -> None:
        """A copy was made in so many seconds, before this step; `page`: what the next write to a page costs."""
        self._forked = (step, seconds)
        self._page = page
        self.cost = seconds + self._after + self._copy

    def expected(self, pages: int) -> float:
        """What the next copy will cost a process of so many pages; of the last one it is known, of the first it is not.

        >>> pace = Pace()
        >>> pace.forked(0, 0.5, page=0.001)
        >>> pace.expected(1000)
        1.5
        """
        return self.cost if self._after else self.cost + pages * self._page

    def left(self, seconds: float) -> None:
        """A copy has left that used so many CPU seconds from its making to its end."""
        self._copy = seconds

    def ended(self, step: int) -> bool:
        """A step is over; whether the cost of the last copy is known now."""
        if self._since is None or step != self._next:
            self._next = step + 1
            self._forked = None  # steps went by unseen
            return False
        self._next = step + 1
        taken = self._clock() - self._since
        if self._forked is None or self._forked[0] != step:
            self._seconds.append(taken)
            return False
        _, seconds = self._forked
        self._forked = None
        if len(self._seconds) < 2:
            return False
        self._after = max(0.0, taken - median(self._seconds))
        self.cost = seconds + self._after + self._copy
        return True

    def go_on(self) -> None:
        """The next step begins."""
        self._since = self._clock()
