"""What is compiled once per tensor: which watchpoints are asked about it, and what they remember of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

from tensight.records import Kind, Needs, Stats, TensorInfo, Watchpoint
from tensight.watchpoints.catalogue import build
from tensight.watchpoints.condition import Condition, History
from tensight.watchpoints.healthy import never_watched
from tensight.watchpoints.selectors import ALL_KINDS, Selector
from tensight.watchpoints.spec import what
from tensight.watchpoints.surroundings import STORED
from tensight.watchpoints.thresholds import bad_values

Gate = Callable[[Stats], object]
Form = tuple[tuple[int, ...], str]
"""Shape and dtype."""


class Watch:
    """A watchpoint with its condition and selector, and how often it has hit."""

    def __init__(self, watchpoint: Watchpoint) -> None:
        self.watchpoint = watchpoint
        self.condition: Condition = build(watchpoint)
        self.selector = Selector.parse(watchpoint.on)
        self.selector.require(self.condition.code, self.condition.applies_to)
        self.allowed = self.condition.applies_to or ALL_KINDS
        self.otherwise = _kinds(Selector.parse(self.condition.on))
        self.needs: Needs = self.condition.needs()
        self.name = watchpoint.name or what(watchpoint)
        self.always = watchpoint.after == 0 and watchpoint.every == 1
        self.hits = 0
        self.failed = False

    def selects(self, info: TensorInfo) -> bool:
        """Whether this watchpoint is asked about a tensor."""
        if not self.watchpoint.enabled or not self.selector.selects(info, self.otherwise, self.allowed):
            return False
        return not (self.watchpoint.recommended and never_watched(self.watchpoint.condition, info))


def in_vain(watchpoints: Iterable[Watchpoint], tensors: Collection[TensorInfo]) -> list[str]:
    """The user's own watchpoints that are asked about none of these tensors: most often a name is misspelt."""
    own = [Watch(point) for point in watchpoints if point.enabled and not point.recommended]
    return [watch.watchpoint.on for watch in own if not any(watch.selects(info) for info in tensors)]


def _kinds(selector: Selector) -> frozenset[Kind]:
    kinds: frozenset[Kind] = frozenset()
    for term in selector.terms:
        kinds |= ALL_KINDS if term.kinds is None else term.kinds
    return kinds


class Entry:
    """One watchpoint on one tensor."""

    __slots__ = ("before", "gate", "held", "hit", "judged", "streak", "told", "watch")

    def __init__(self, watch: Watch, gate: Gate) -> None:
        self.watch = watch
        self.gate = gate
        self.hit = -1  # the last step it hit in
        self.told = ""  # the last error that was listed
        self.judged = self.before = -1  # the last two steps it was asked in
        self.held = -1  # the last step it held in
        self.streak = 0

    def row(self, step: int) -> int:
        """Note that it held in this step; for how many steps in a row it has."""
        if self.held != step:
            self.streak = self.streak + 1 if self.held == self.before and self.held >= 0 else 1
            self.held = step
        return self.streak


def _always(stats: Stats) -> bool:
    return True


class Plan:
    """All that is asked about one tensor."""

    __slots__ = ("entries", "info", "remembers", "rows", "slow", "start", "stats", "steps", "tests", "was")

    def __init__(
        self, info: TensorInfo, watches: Sequence[Watch], old: Plan | None = None, origins: bool = False
    ) -> None:
        self.info = info
        self.was: Form = (info.shape, info.dtype) if old is None else old.was
        known = {} if old is None else {entry.watch: entry for entry in old.entries}
        self.entries: list[Entry] = []
        for watch in watches:
            gate = watch.condition.gate(info) or _always
            entry = known.get(watch) or Entry(watch, gate)
            entry.gate = gate
            self.entries.append(entry)
        self.start = [entry for entry in self.entries if entry.watch.condition.only_before_updates]
        self.rows = [entry for entry in self.entries if entry.watch.watchpoint.in_a_row > 1 and entry not in self.start]
        tests: list[tuple[Gate, Entry | None]] = [
            (entry.gate, entry) for entry in self.entries if entry not in self.start and entry not in self.rows
        ]
        if origins and info.kind in STORED:
            tests.append((bad_values, None))  # no watchpoint: the checker remembers which weights are bad
        self.tests = tuple(tests)
        length = max((watch.condition.history for watch in watches), default=0)
        self.steps: deque[int] = deque(maxlen=length)
        self.stats: deque[Stats] = deque(maxlen=length)
        if old is not None:
            self.steps.extend(old.steps)
            self.stats.extend(old.stats)
        self.remembers = length > 0
        self.slow = bool(self.start or self.rows or length)

    def history(self, length: int, partner: Stats | None) -> History:
        """The last `length` statistics before now."""
        if not length:
            return History(partner=partner)
        return History(tuple(self.steps)[-length:], tuple(self.stats)[-length:], partner)
