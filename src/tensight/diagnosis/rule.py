"""What a diagnosis rule is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from tensight.records import Evidence, Finding, Where

if TYPE_CHECKING:
    from tensight.diagnosis.case import Case

Fact = tuple[str, float | int | str | bool | None]


class Rule(ABC):
    """Concludes causes from what a run shows.

    A rule is asked every so many steps (`Case` grows by one step and answers cheaply) and once at the end. Each time
    it gives all it stands behind now; what it no longer says is withdrawn, unless it is `lasting`. It must be silent
    on healthy training: a wrong finding costs more trust than a missed fault.
    """

    fault: ClassVar[str]
    category: ClassVar[str]
    finds: ClassVar[str]  # one sentence for the documentation
    evidence: ClassVar[tuple[str, ...]]  # what it looks at, in words
    also: ClassVar[Mapping[str, str]] = MappingProxyType({})  # more exact names it may say, each with its sentence
    explains: ClassVar[frozenset[str]] = frozenset()  # faults that are consequences of this one when they come later
    symptom: ClassVar[bool] = False  # judged by behaviour alone: any definite cause that came before explains it
    every: ClassVar[int] = 10  # asked every so many steps; 0: only at the end
    urgent: ClassVar[bool] = False  # also asked at once when something new went wrong
    lasting: ClassVar[bool] = False  # what was seen once stays true: later steps may only show it less well

    @abstractmethod
    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        """Findings the case supports now. The engine keeps the earliest step of each and folds consequences."""

    def finding(
        self,
        title: str,
        *,
        confidence: float,
        since_step: int,
        where: Where,
        why: str,
        facts: Sequence[Fact] = (),
        fix: Sequence[str] = (),
        confirm: Sequence[str] = (),
        since: str = "",
        fault: str = "",
        category: str = "",
        then: Sequence[str] = (),
        replay: str = "",
    ) -> Finding:
        """A finding of this rule; `facts` become its evidence."""
        return Finding(
            fault=fault or self.fault,
            category=category or self.category,
            title=title,
            confidence=round(confidence, 3),
            since_step=since_step,
            where=where,
            why=why,
            evidence=tuple(Evidence(what, value) for what, value in facts),
            fix=tuple(fix),
            confirm=tuple(confirm),
            since=since,
            then=tuple(then),
            replay=replay,
        )
