"""How deep to look at the next step, so that watching costs no more than it may.

What looking costs is learnt by comparing the time of steps of different depth, since the cost of a hook cannot be seen
from inside it. On a machine whose speed changes that may show nothing at all, so it is never taken for less than the
time that was spent inside of hooks. Until enough is known, and as long as little time has been spent in all, every step
is watched whole: a run of a few seconds is never thinned. On the smallest networks even a light look at every step is
too much: then most steps are slept through, with an ear on the loss.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tensight.records import Depth

FIRST = 10  # steps that are always watched whole: most faults show here
CREDIT = 0.5  # seconds of watching that are free, whatever their share
AROUND_TROUBLE = 5  # steps watched whole after something new went wrong
WINDOW = 15
LEARN_AT = 60  # the step at which costs are learnt at the latest
AGAIN = 100  # steps after which it is measured again what a step takes that is hardly looked at
MUCH_FASTER = 0.6  # of what a step took by itself before: the machine was slow then
LIGHT_LOOKS = 3  # steps of a kind that costs are learnt from
SHORT = 0.02  # seconds of a step: a longer one is always looked at lightly, and its deeper looks pay for that
LEAST_DEEPER = 0.3  # of the budget is for deeper looks, whatever light ones cost
BESIDE = (
    1.25  # what looking costs in all against the time inside of hooks: calls, and caches that hold something else now
)
MOST_BESIDE = 3  # times that: what seems to cost more was measured in a slow moment
EAR = 3e-5  # seconds of a step that is slept through: what it costs is in its own time, and can't be told from it
NAP = 8  # steps slept to learn what a step takes by itself
LONGEST_SLEEP = 0.05  # seconds: a pause that the user asks for is heard in time
MOST_ASLEEP = 200  # steps: a step time that was measured too short must not let a sleep run away
SHARES = {Depth.ALL: 0.5, Depth.GRADIENTS: 0.25, Depth.LIGHT: 0.25}  # of the budget
LOOKS = tuple(SHARES)


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
        self.may_sleep = True  # False where each step has to be heard: inference, loss scaling, a page that waits
        self.counts = dict.fromkeys(Depth, 0)
        self._whole = 0.0  # seconds of all steps
        self._first = first
        self._credit = credit
        self._times: dict[Depth, deque[float]] = {depth: deque(maxlen=WINDOW) for depth in Depth}
        self._inside: dict[Depth, deque[float]] = {depth: deque(maxlen=WINDOW) for depth in LOOKS}
        self._rest: deque[float] = deque(maxlen=WINDOW)  # of steps: what was left without that
        self._last = dict.fromkeys(LOOKS, 0)
        self._trouble_until = -1
        self._base = 0.0  # seconds of a step without watching; 0 while unknown
        self._costs = dict.fromkeys(LOOKS, 0.0)
        self._guess = 0.0  # share of a step that looking at it all is thought to take
        self._finished = 0
        self._quiet_at = 0  # the step that was last hardly looked at
        self._nap = True  # the next sleep is one to learn from

    def finished(self, step: int, depth: Depth, seconds: float, guess: float = 0.0, inside: float = 0.0) -> None:
        """A step of a depth took so long, everything included.

        `guess` is what looking may have taken of it, `inside` what it has taken at least, where that was measured.
        """
        self.counts[depth] += 1
        self._whole += seconds
        if step == 0:
            return  # the first step pays for lazy initialisation
        if depth is Depth.LIGHT:
            self._quiet_at = step
        self._add(depth, seconds)
        if inside:
            inside = min(BESIDE * inside, seconds)
            self._inside[depth].append(inside)
            self._rest.append(seconds - inside)
        if depth is Depth.ALL and seconds > 0:
            self._guess = guess / seconds
        self._finished += 1
        if depth is not Depth.ALL or self._finished % 4 == 0:
            self._learn_costs()
        # a step that was slow for its own reasons is not ours
        cost = self._costs.get(depth, 0.0)
        learnt = min(max(0.0, seconds - self._base), 3 * cost) if self._base else 0.0 if inside else min(guess, seconds)
        self.spent += max(inside, learnt)

    def slept(self, steps: int, seconds: float) -> None:
        """So many steps were slept through; none, where the first of them woke us."""
        self._whole += seconds
        if steps <= 0:
            return
        self.counts[Depth.ASLEEP] += steps
        self._add(Depth.ASLEEP, seconds / steps)
        self._learn_costs()

    def trouble(self, step: int) -> None:
        """Something new went wrong: look closely for a while."""
        self._trouble_until = step + AROUND_TROUBLE

    def next_depth(self, step: int) -> Depth:
        """How deep to look at this step."""
        if self.percent >= 100 or step < self._first or step <= self._trouble_until:
            return self._chose(step, Depth.ALL)
        lesson = self._lesson(step)
        if lesson is not None:
            return self._chose(step, lesson)
        if step - self._quiet_at >= AGAIN:
            self._quiet_at = step  # a base from a slow moment would hide what watching costs
            self._nap = True
            return Depth.ASLEEP if self._is_short() else self._chose(step, Depth.LIGHT)
        if self.spent <= self._credit:
            return self._chose(step, Depth.ALL)
        for depth in LOOKS:
            if step - self._last[depth] >= self.period(depth):
                return self._chose(step, depth)
        self._quiet_at = step
        return Depth.ASLEEP if self._is_short() else Depth.LIGHT

    def sleep_length(self, step: int) -> int:
        """How many steps may be slept through from this one on."""
        if self._nap:
            self._nap = False
            return NAP
        due = min(self._last[depth] + self.period(depth) for depth in LOOKS) - step
        return max(1, min(due, MOST_ASLEEP, int(LONGEST_SLEEP / max(self._base, 1e-6))))

    def period(self, depth: Depth) -> int:
        """Every how many steps a depth may be paid for, out of its share of the budget."""
        allowed = self._base * self.percent / 100
        cost, share = self._costs[depth], SHARES[depth]
        if self._is_short():
            if self._times[Depth.ASLEEP]:
                allowed = max(allowed - EAR, allowed / 2)
        elif depth is not Depth.LIGHT:
            light = self._costs[Depth.LIGHT]
            allowed = max(allowed - light, allowed * LEAST_DEEPER)
            cost = max(0.0, cost - light)  # the light look of that step is paid for
            share /= 1 - SHARES[Depth.LIGHT]
        return max(1, -int(-cost // max(allowed * share, 1e-9)))

    @property
    def ratio(self) -> float | None:
        """Time with watching over time without; None while nothing is known."""
        if not self._base or self._whole <= self.spent:
            return None
        return self._whole / (self._whole - self.spent)

    def describe(self) -> str:
        """How sampling was thinned, in words."""
        whole, some, light, asleep = (self.counts[d] for d in (*LOOKS, Depth.ASLEEP))
        total = whole + some + light + asleep
        if not total:
            return ""
        if total == whole:
            return "every step was watched whole"
        said = (
            f"{whole} of {total} steps were watched whole, {some} more for gradients and weights, {light} for the loss"
        )
        if asleep:
            said += f", and {asleep} only for a loss that is not finite"
        return said + f", to hold a budget of {self.percent:g} %"

    def _lesson(self, step: int) -> Depth | None:
        """The depth to try next, so that its cost is known; None when all are, or it can wait."""
        if not self._times[Depth.LIGHT]:
            cheap = 200 * self._guess < self.percent and step < LEARN_AT
            if cheap or self.spent < self._credit / 2:
                return Depth.ALL
        if len(self._times[Depth.LIGHT]) < LIGHT_LOOKS:
            # every second step, so that nothing long goes unseen
            return Depth.ALL if step % 2 else Depth.LIGHT
        if not self._times[Depth.GRADIENTS]:
            return Depth.GRADIENTS
        if self._is_short() and not self._times[Depth.ASLEEP]:
            return Depth.ASLEEP
        return None

    def _is_short(self) -> bool:
        """Whether steps are so short that even a light look at each counts."""
        return self.may_sleep and _median(self._times[Depth.LIGHT]) < SHORT

    def _add(self, depth: Depth, seconds: float) -> None:
        times = self._times[depth]
        if depth <= Depth.LIGHT and times and seconds < MUCH_FASTER * _median(times):
            times.clear()
        times.append(seconds)

    def _learn_costs(self) -> None:
        quiet = self._times[Depth.ASLEEP] or self._times[Depth.LIGHT]
        if not quiet:
            return
        self._base = min(_median(quiet), _median(self._rest)) if self._rest else _median(quiet)
        for depth in LOOKS:
            if self._times[depth]:
                seen = max(0.0, _median(self._times[depth]) - self._base)
                if self._inside[depth]:
                    inside = _median(self._inside[depth])
                    seen = min(max(inside, seen), MOST_BESIDE * inside)
                self._costs[depth] = seen

    def _chose(self, step: int, depth: Depth) -> Depth:
        # a deeper look serves the lighter ones too
        for look in LOOKS:
            if look <= depth:
                self._last[look] = step
        return depth
