"""What a condition is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tensight.records import ErrorCode, Kind, Needs, Stats, TensorInfo


@dataclass(frozen=True)
class Setting:
    """A parameter of a condition. `range` is 'pct' [0, 100], 'abs' [0, ∞), 'pos' (0, ∞) or 'any' (finite)."""

    name: str
    help: str
    range: str = "any"
    default: float | None = None  # None: off unless given


@dataclass(frozen=True)
class History:
    """What a condition may know of the same tensor before now: its own earlier statistics, oldest first."""

    steps: Sequence[int] = ()
    stats: Sequence[Stats] = ()


@dataclass(frozen=True)
class Verdict:
    """The outcome of one check. `held` maps each parameter that held to (actual, threshold); empty: no hit."""

    held: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    error: ErrorCode | None = None
    note: str = ""


@dataclass(frozen=True)
class Example:
    """Records that must hit, or must not; the shipped suite checks every condition on its own examples."""

    now: Stats
    hit: bool
    settings: Mapping[str, float] = field(default_factory=dict)
    history: History = History()
    info: TensorInfo | None = None


class Condition:
    """A pure judgement over the statistics of one tensor. It never sees a framework's tensor.

    A subclass sets the class attributes and writes `judge`; everything else (command line list, page form, advice,
    documentation, conformance tests) is derived from them.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    title: ClassVar[str]
    applies_to: ClassVar[frozenset[Kind]]  # empty: every kind
    settings: ClassVar[tuple[Setting, ...]] = ()
    finds: ClassVar[str]
    matters: ClassVar[str]
    causes: ClassVar[tuple[str, ...]]
    try_: ClassVar[tuple[str, ...]]
    examples: ClassVar[tuple[Example, ...]]
    history: ClassVar[int] = 0  # how many earlier statistics of the tensor it looks at

    def __init__(self, **given: float) -> None:
        self.given = self.accept(given)

    @classmethod
    def accept(cls, given: Mapping[str, float]) -> dict[str, float]:
        """Checked parameters with defaults filled in; a SpecError names what is wrong."""
        raise NotImplementedError  # pragma: no cover - replaced by the watchpoints package

    def needs(self) -> Needs:
        return Needs()

    def judge(self, now: Stats, history: History, info: TensorInfo) -> Verdict:
        raise NotImplementedError  # pragma: no cover - every condition writes its own
