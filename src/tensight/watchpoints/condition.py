"""What a condition is."""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from tensight.errors import SpecError
from tensight.records import ErrorCode, Kind, Needs, Stats, TensorInfo, Watchpoint
from tensight.records.hit import Action
from tensight.watchpoints.limits import checked
from tensight.watchpoints.selectors import Selector

RangeName = Literal["pct", "abs", "pos", "any", "count"]

RANGES: dict[RangeName, str] = {
    "pct": "between 0 and 100",
    "abs": "0 or more",
    "pos": "greater than 0",
    "any": "a finite number",
    "count": "a whole number from 1 to 1000",
}
"""What each range of a setting allows, in the words that error messages and the documentation use."""


@dataclass(frozen=True)
class Setting:
    """A parameter of a condition.

    `range` is 'pct' [0, 100], 'abs' [0, ∞), 'pos' (0, ∞), 'any' (finite) or 'count' (whole, 1 to 1000).
    """

    name: str
    help: str
    range: RangeName = "any"
    default: float | None = None  # None: off unless given

    def allows(self, value: float) -> bool:
        """
        >>> Setting("share", "", "pct").allows(100), Setting("share", "", "pct").allows(101)
        (True, False)
        """
        if not math.isfinite(value):
            return False
        if self.range == "pct":
            return 0 <= value <= 100
        if self.range == "abs":
            return value >= 0
        if self.range == "pos":
            return value > 0
        if self.range == "count":
            return value == int(value) and 1 <= value <= 1000
        return True


@dataclass(frozen=True)
class History:
    """What a condition may know of the same tensor before now: its own earlier statistics, oldest first.

    `partner` is, for a gradient, its weight in the same step, and for a weight its gradient, where observed.
    """

    steps: Sequence[int] = ()
    stats: Sequence[Stats] = ()
    partner: Stats | None = None


NO_HISTORY = History()


@dataclass(frozen=True)
class Verdict:
    """The outcome of one check. `held` maps each parameter that held to (actual, threshold); empty: no hit."""

    held: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    error: ErrorCode | None = None
    note: str = ""


QUIET = Verdict()
"""The verdict of nearly always: judged, and nothing held."""


@dataclass(frozen=True)
class Example:
    """Records that must hit, or must not; the shipped suite checks every condition on its own examples."""

    now: Stats
    hit: bool
    settings: Mapping[str, float] = field(default_factory=dict)
    history: History = NO_HISTORY
    info: TensorInfo | None = None


class Condition(ABC):
    """A pure judgement over the statistics of one tensor. It never sees a framework's tensor.

    A subclass sets the class attributes and writes `judge`; everything else (command line list, page form, advice,
    documentation, conformance tests) is derived from them.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    title: ClassVar[str]
    on: ClassVar[str] = "*"  # the selector that '*' stands for: 'weight:*' for conditions on weights
    applies_to: ClassVar[frozenset[Kind]] = frozenset()  # empty: every kind
    settings: ClassVar[tuple[Setting, ...]] = ()
    one_of: ClassVar[tuple[str, ...]] = ()  # at least one of these settings must be given
    finds: ClassVar[str]
    matters: ClassVar[str]
    causes: ClassVar[tuple[str, ...]]
    try_: ClassVar[tuple[str, ...]]
    examples: ClassVar[tuple[Example, ...]]
    only_before_updates: ClassVar[bool] = False  # judged only before the first optimizer step
    wants_partner: ClassVar[bool] = False  # looks at `History.partner`
    wants_origin: ClassVar[bool] = False  # judged only where what went in was finite (operator overflow)
    history: int = 0  # how many earlier statistics of the tensor it looks at; an instance may set its own

    def __init__(self, **given: float) -> None:
        self.given = self.accept(given)

    @classmethod
    def accept(cls, given: Mapping[str, float]) -> dict[str, float]:
        """Checked parameters with defaults filled in; a SpecError names what is wrong.

        >>> from tensight.watchpoints.catalogue import TensorAllZero
        >>> TensorAllZero.accept({})
        {'zero_percentage_ge': 100.0}
        """
        known = {setting.name: setting for setting in cls.settings}
        values: dict[str, float] = {}
        for name, value in given.items():
            setting = known.get(name)
            if setting is None:
                has = f"it has {', '.join(known)}" if known else "it has none"
                raise SpecError(f"{cls.code} has no parameter {name!r}: {has}.")
            values[name] = _number(cls.code, setting, value)
        for setting in cls.settings:
            if setting.default is not None:
                values.setdefault(setting.name, float(setting.default))
        if cls.one_of and not any(name in values for name in cls.one_of):
            raise SpecError(f"{cls.code} needs at least one of {', '.join(cls.one_of)}.")
        cls.accept_together(values)
        return {name: values[name] for name in known if name in values}

    @classmethod
    def accept_together(cls, values: Mapping[str, float]) -> None:
        """Raise a SpecError when parameters that are right one by one do not fit together."""
        return

    def needs(self) -> Needs:
        """What the pass over the tensor must compute for this condition beside what always comes."""
        return Needs()

    @abstractmethod
    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        """Judge one tensor at one moment."""

    def gate(self, info: TensorInfo) -> Callable[[Stats], object] | None:
        """A quick test for one tensor, falsy only where `judge` surely finds nothing; None: judge every time.

        The checker asks it first, so that a healthy step costs next to nothing.
        """
        return None

    def watchpoint(
        self,
        id: int,
        on: str = "*",
        *,
        name: str = "",
        recommended: bool = False,
        after: int = 0,
        every: int = 1,
        at_most: int = 0,
        in_a_row: int = 1,
        action: Action = "",
    ) -> Watchpoint:
        """This condition on the tensors that `on` names.

        >>> from tensight.watchpoints.catalogue import TensorOverflow
        >>> TensorOverflow().watchpoint(1, on="gradient:encoder.*").condition
        'TO'
        """
        Selector.parse(on).require(self.code, self.applies_to)
        if not isinstance(name, str) or len(name) > 200 or not name.isprintable():
            raise SpecError("a watchpoint's name is a text of at most 200 printable characters.")
        limits = checked(after=after, every=every, at_most=at_most, in_a_row=in_a_row, action=action)
        return Watchpoint(
            id=id,
            condition=self.code,
            parameters=dict(self.given),
            on=on,
            name=name,
            recommended=recommended,
            expression=self.text(),
            **limits,
        )

    def text(self) -> str:
        """The expression, for conditions that are one; '' for all others."""
        return ""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value:g}" for name, value in self.given.items())
        return f"{type(self).__name__}({shown})"


def _number(code: str, setting: Setting, value: object) -> float:
    allowed = RANGES[setting.range]
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise SpecError(f"{code}: {setting.name} must be {allowed}, not {value!r}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not setting.allows(number):
        raise SpecError(f"{code}: {setting.name} must be {allowed}, not {number:g}.")
    return number


def unjudged(now: Stats) -> Verdict | None:
    """Why a tensor has no value to judge: it is empty, or nothing in it is finite; None when it has one."""
    if not now.count:
        return Verdict(error="no_value", note="the tensor is empty")
    if now.finite:
        return None
    return Verdict(error="nan" if now.nan else "inf", note=f"no finite value: {_counts(now)}")


def finite_note(now: Stats) -> str:
    """
    >>> finite_note(Stats(count=100, nan=3, pos_inf=1))
    'judged on the finite 96 of 100 values (3 NaN, 1 Inf)'
    """
    return f"judged on the finite {now.finite} of {now.count} values ({_counts(now)})" if now.bad else ""


def _counts(now: Stats) -> str:
    return ", ".join(f"{count} {word}" for count, word in ((now.nan, "NaN"), (now.inf, "Inf")) if count)
