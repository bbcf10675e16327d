"""What a diagnosis rule is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from tensight.records import Finding

if TYPE_CHECKING:
    from tensight.diagnosis.case import Case


class Rule(ABC):
    """Concludes causes from what a run shows.

    A rule is asked after every step (`Case` grows by one step and answers cheaply) and once at the end. It must be
    silent on healthy training: a wrong finding costs more trust than a missed fault.
    """

    fault: ClassVar[str]
    category: ClassVar[str]
    finds: ClassVar[str]  # one sentence for the documentation
    evidence: ClassVar[tuple[str, ...]]  # what it looks at, in words
    explains: ClassVar[frozenset[str]] = frozenset()  # faults that are consequences of this one when they come later
    every: ClassVar[int] = 1  # asked every so many steps; 0: only at the end

    @abstractmethod
    def conclude(self, case: Case, *, final: bool) -> Iterable[Finding]:
        """Findings the case supports now. The engine keeps the best per key and folds consequences."""
