"""The findings of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import overload

from tensight.records import Finding
from tensight.runs.blocks import place
from tensight.runs.words import number, paragraph

_NONFINITE = "numeric-nonfinite"


class Findings(Sequence[Finding]):
    """Findings, the most certain root cause first."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self._findings = list(findings)

    @overload
    def __getitem__(self, place: int) -> Finding: ...
    @overload
    def __getitem__(self, place: slice) -> Findings: ...
    def __getitem__(self, place: int | slice) -> Finding | Findings:
        return Findings(self._findings[place]) if isinstance(place, slice) else self._findings[place]

    def __len__(self) -> int:
        return len(self._findings)

    def __eq__(self, other: object) -> bool:
        return self._findings == other._findings if isinstance(other, Findings) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "<Findings: " + (", ".join(finding.fault for finding in self) or "none") + ">"

    def _repr_html_(self) -> str:
        return "".join(_block(finding) for finding in self) or paragraph("No findings.")


def merge(by_rank: Mapping[int, Sequence[Finding]]) -> list[Finding]:
    """Findings of several ranks as one list: what several ranks say stands once, by the rank that saw it first."""
    told = [(rank, found) for rank, found in sorted(by_rank.items()) if found]
    if len(told) == 1:
        return list(told[0][1])
    best: dict[str, Finding] = {}
    for _, found in told:
        for finding in found:
            known = best.get(finding.key)
            if known is None or finding.since_step < known.since_step:
                best[finding.key] = finding
    first = min((one.since_step for one in best.values() if one.category == _NONFINITE), default=None)
    if first is not None:  # what is not finite on one rank reaches all others by the next collective
        best = {key: one for key, one in best.items() if one.category != _NONFINITE or one.since_step == first}
    return sorted(best.values(), key=lambda finding: (-finding.confidence, finding.since_step, finding.rank))


def _block(finding: Finding) -> str:
    return paragraph(
        f"step {finding.since_step}  {finding.title}" + (" (muted)" if finding.muted else ""),
        f"where: {place(finding)}",
        f"why: {finding.why}",
        f"since: {finding.since}" if finding.since else "",
        f"then: {' → '.join(finding.then)}" if finding.then else "",
        *(f"fix: {fix}" for fix in finding.fix),
        f"confidence: {number(finding.confidence)}",
    )
