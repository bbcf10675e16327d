"""The form of an advice and of the rules that give it.

A rule sees a reading, never a framework. It names the symptom it looks for, what it measures, from which value on it
speaks, what it advises and what that may gain; the documentation is made of that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from tensight.profiling.reading import Reading
from tensight.records import Evidence, Finding, Source, Where


@dataclass(frozen=True)
class Advice:
    """What costs time, where, and what to do. `gain` is the share of the step's time that may be saved."""

    fault: str
    title: str
    why: str
    gain: float
    source: Source | None = None
    module: str | None = None
    op: str | None = None
    evidence: tuple[Evidence, ...] = ()
    fix: tuple[str, ...] = ()
    tries: tuple[str, ...] = ()  # changes that `--try` can measure
    confidence: float = 0.9
    rank: int = 0

    def finding(self, step: int = 0) -> Finding:
        """The same as a finding of category resource.

        >>> Advice("data_jitter", "some batches are late", "…", 0.3).finding(5).category
        'resource'
        """
        source = self.source
        return Finding(
            fault=self.fault,
            category="resource",
            title=self.title,
            confidence=self.confidence,
            since_step=step,
            where=Where(
                module=self.module,
                op=self.op,
                file=source.file if source else None,
                line=source.line if source else None,
                code=source.code if source else None,
            ),
            why=self.why,
            evidence=(*self.evidence, Evidence("may save of a step's time", round(max(0.0, self.gain), 3))),
            fix=self.fix,
            rank=self.rank,
        )


class AdviceRule(ABC):
    """A rule. Subclasses live one to a file in `profiling/advice/`, with a line in its registry."""

    fault: ClassVar[str]
    symptom: ClassVar[str]
    measure: ClassVar[str]
    threshold: ClassVar[str]
    advice: ClassVar[str]
    explains: ClassVar[tuple[str, ...]] = ()  # faults that are only consequences of this one
    frameworks: ClassVar[tuple[str, ...]] = ("torch", "mindspore")

    @abstractmethod
    def look(self, reading: Reading) -> Advice | None:
        """The advice, or None when there is nothing to say."""


def percent(share: float) -> str:
    """
    >>> percent(0.3333)
    '33 %'
    """
    return f"{100 * share:.0f} %"


def milliseconds(seconds: float) -> str:
    """
    >>> milliseconds(0.01234), milliseconds(2.5), milliseconds(0.00001)
    ('12.3 ms', '2.50 s', '0.01 ms')
    """
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{1000 * seconds:.1f} ms" if seconds >= 0.001 else f"{1000 * seconds:.2f} ms"
