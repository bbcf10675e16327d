"""Whether ranks hold alike what they should, by the checksums each of them has told.

A weight that a wrapper keeps alike must be the same on all ranks of its group, bit by bit. A buffer may follow a rank's
own batches: it counts only when it was the same before, and has stood still on some rank or moved alike on all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tensight.records import Event, Part, Source
from tensight.store import Reader

KIND = "agreement"
CAUSES = (
    "collective",
    "start",
    "gradient",
    "forgotten",
)  # of what differs in one step, these come first
DIGITS = 16
ALIKE = 2  # checks in a row at which a buffer or copy was the same on all ranks
MOST_READ = 2_000  # steps of a recorded run that are looked through
EARLY = 64  # of its first ones all


class Check(msgspec.Struct, frozen=True):
    """What one rank has told of one group of tensors behind one step."""

    part: str
    update: int  # how many updates the rank had made before
    step: int
    sums: str
    words: str = ""  # of collectives: what each of them was
    passes: int = -1  # backward passes the rank had made by then


class Told(msgspec.Struct, frozen=True):
    """All that one rank has told lately."""

    rank: int
    parts: tuple[Part, ...] = ()
    checks: tuple[Check, ...] = ()


class Difference(msgspec.Struct, frozen=True):
    """A tensor that is no longer the same on all ranks of its group."""

    kind: str  # 'weight', 'gradient', 'buffer', 'copy', 'alone', 'exchanged', 'start', 'forgotten', 'single' or
    # 'collective'
    network: str
    name: str
    step: int
    others: int  # further tensors of the group that differ at the same check
    ranks: tuple[tuple[int, ...], ...]  # those that agree stand together, the largest group first
    agreed: int | None = None  # the last check before at which they were all the same
    words: str = ""  # of collectives: what the ranks called
    source: Source | None = None  # the line it points to, where one is known
    left_out: tuple[int, ...] = ()  # ranks that needed more backward passes for as many updates: they skipped some

    def event(self) -> Event:
        """The same as an event, which rules look at."""
        return Event(
            "replicas_differ",
            part=self.network,
            values={
                "kind": self.kind,
                "name": self.name,
                "step": self.step,
                "others": self.others,
                "ranks": " | ".join(" ".join(map(str, ranks)) for ranks in self.ranks),
                "agreed": self.agreed,
                "words": self.words,
                "left_out": " ".join(map(str, self.left_out)),
            },
            source=self.source,
        )


Ranks = Mapping[int, tuple[Part, Mapping[int, Check]]]


def differences(told: Iterable[Told]) -> list[Difference]:
    """The first difference of each kind and network, in order of step.

    >>> part = Part("agreement", "w", "weight", {"network": "net", "ranks": "0 1"}, None, ("fc.weight",))
    >>> found = differences(Told(rank, (part,), (Check("w", 3, 3, f"{rank:016x}"),)) for rank in (0, 1))
    >>> [(one.name, one.step, one.ranks) for one in found]
    [('fc.weight', 3, ((0,), (1,)))]
    """
    by_part: dict[str, dict[int, tuple[Part, dict[int, Check]]]] = {}
    for one in told:
        for part in one.parts:
            checks = {check.update: check for check in one.checks if check.part == part.name}
            by_part.setdefault(part.name, {})[one.rank] = (part, checks)
    found: list[Difference] = []
    for ranks in by_part.values():
        first = _first(ranks)
        if first is not None:
            found.append(first)
    return sorted(found, key=lambda one: (one.step, CAUSES.index(one.kind) if one.kind in CAUSES else len(CAUSES)))


def _group(ranks: Ranks) -> list[int]:
    """The ranks that should be alike, once all of them have told."""
    part = next(iter(ranks.values()))[0]
    group = [int(word) for word in str(part.settings.get("ranks", "")).split() if word.isdecimal()]
    return group if len(group) > 1 and all(rank in ranks for rank in group) else []


def _first(ranks: Ranks) -> Difference | None:
    group = _group(ranks)
    if not group:
        return None
    part = ranks[group[0]][0]
    names = part.parameters
    updates = sorted(set.intersection(*(set(ranks[rank][1]) for rank in group)))
    before: list[list[str]] = []  # the sums of earlier checks, by rank
    agreed: int | None = None
    for update in updates:
        sums = [ranks[rank][1][update].sums for rank in group]
        if any(len(one) != DIGITS * len(names) for one in sums):
            before.clear()
            continue
        if len(set(sums)) > 1:
            places = [at for at in range(len(names)) if _counts(part.type, at, sums, before)]
            if places:
                at = places[0]
                told = part.settings.get("network", "")
                sides = _sides(group, sums, at)
                words = [_word(ranks[side[0]][1][update], at) for side in sides[:2]]
                others = len(places) - 1
                since = ranks[group[0]][1][update].step
                against = " against ".join(filter(None, words))
                left_out = _left_out(group, [ranks[rank][1][update].passes for rank in group])
                return Difference(
                    part.type, str(told), names[at], since, others, sides, agreed, against, part.source, left_out
                )
        else:
            agreed = ranks[group[0]][1][update].step
        before.append(sums)
    return None


def _left_out(group: Sequence[int], passes: Sequence[int]) -> tuple[int, ...]:
    """
    >>> _left_out((0, 1, 2), (19, 20, 19)), _left_out((0, 1), (19, 19)), _left_out((0, 1), (-1, 19))
    ((1,), (), ())
    """
    fewest = min(passes)
    return tuple(rank for rank, count in zip(group, passes) if count > fewest >= 0)


def _counts(kind: str, at: int, sums: Sequence[str], before: Sequence[Sequence[str]]) -> bool:
    now = [_digits(one, at) for one in sums]
    if len(set(now)) == 1:
        return False
    if kind in ("weight", "gradient", "collective", "exchanged", "start"):
        return True
    if kind in ("alone", "forgotten", "single"):  # no wrapper keeps it alike: it counts only when it began so
        return bool(before) and len({_digits(one, at) for one in before[0]}) == 1
    if len(before) < ALIKE:
        return False
    earlier = [[_digits(one, at) for one in check] for check in before]
    if any(len(set(check)) > 1 for check in earlier[-ALIKE:]):
        return False
    still = any(mine == last for mine, last in zip(now, earlier[-1]))
    moved_alike = any(len(set(check)) == 1 and check != earlier[-1] for check in earlier)
    return still or moved_alike


def _word(check: Check, at: int) -> str:
    words = check.words.split(" | ") if check.words else []
    return words[at] if at < len(words) else ""


def _digits(sums: str, at: int) -> str:
    return sums[DIGITS * at : DIGITS * (at + 1)]


def _sides(group: Sequence[int], sums: Sequence[str], at: int) -> tuple[tuple[int, ...], ...]:
    values = [_digits(one, at) for one in sums]
    return tuple(
        tuple(rank for rank, mine in zip(group, values) if mine == value) for value, _ in Counter(values).most_common()
    )


def of_events(rank: int, parts: Iterable[Part], events: Iterable[tuple[int, Event]]) -> Told:
    """What a rank has told, from its parts and the events of its steps."""
    checks: list[Check] = []
    for step, event in events:
        update, sums, told = (event.values.get(name) for name in ("update", "sums", "step"))
        if event.kind == KIND and isinstance(update, int) and isinstance(sums, str) and isinstance(told, int):
            # a step may have ended after it was told of; one that was told of later was asleep, and counted right
            own = told if event.values.get("late") else step
            passes = event.values.get("passes")
            words = str(event.values.get("words") or "")
            checks.append(Check(event.part, update, own, sums, words, passes if isinstance(passes, int) else -1))
    return Told(rank, tuple(part for part in parts if part.kind == KIND), tuple(checks))


def read(reader: Reader) -> Told:
    """What a rank has told in a recorded run; of a long one a part of its checks."""
    parts = [part for part in reader.parts if part.kind == KIND]
    if not parts:
        return Told(reader.rank)
    steps = _looked_at(reader.steps.numbers)
    events = ((step, event) for step in steps for event in reader.steps.head(step).events)
    return of_events(reader.rank, parts, events)


def _looked_at(numbers: Sequence[int]) -> Iterator[int]:
    """Steps that may hold a check: one is told in the step it is of, or in the next that was recorded."""
    stride = 8
    while numbers and (numbers[-1] - numbers[0]) // stride > MOST_READ:
        stride *= 2
    previous = -1
    for place, step in enumerate(numbers):
        if place < EARLY or step // stride != previous // stride or step % stride == 0:
            yield step
        previous = step
