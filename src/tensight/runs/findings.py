"""The findings of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import overload

from tensight.records import Finding
from tensight.runs.blocks import finding_block, place
from tensight.runs.words import number, paragraph
from tensight.store import Reader

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
        return self._findings == list(other) if isinstance(other, (Findings, list)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "<Findings: " + (", ".join(finding.fault for finding in self) or "none") + ">"

    def __str__(self) -> str:
        return "\n\n".join(map(finding_block, self)) or "no findings"

    def _repr_html_(self) -> str:
        return "".join(_block(finding) for finding in self) or paragraph("No findings.")


def merge(
    by_rank: Mapping[int, Sequence[Finding]], calm: Callable[[int, int, int], bool] | None = None
) -> list[Finding]:
    """Findings of several ranks as one list: what several ranks say stands once, by the rank that saw it first.

    What is not finite on one rank reaches all others by the next collective, so of such findings the earliest stand for
    all, until a rank was calm again: `calm(rank, after, before)` says whether its loss was finite in between.
    """
    told = [(rank, found) for rank, found in sorted(by_rank.items()) if found]
    if len(told) == 1:
        return list(told[0][1])
    best: dict[str, Finding] = {}
    for _, found in told:
        for finding in found:
            known = best.get(finding.key)
            if known is None or finding.since_step < known.since_step:
                best[finding.key] = finding
    merged = [one for one in best.values() if one.category != _NONFINITE]
    first: int | None = None
    for one in sorted((one for one in best.values() if one.category == _NONFINITE), key=lambda one: one.since_step):
        step = one.since_step
        if first is None or (step > first and calm is not None and calm(one.rank, first, step)):
            first = step
        if step == first:
            merged.append(one)
    return sorted(merged, key=lambda finding: (-finding.confidence, finding.since_step, finding.rank))


def calm_between(readers: Mapping[int, Reader]) -> Callable[[int, int, int], bool]:
    """Whether a rank's loss was finite again between two steps, as its records say."""

    def calm(rank: int, after: int, before: int) -> bool:
        steps = readers[rank].steps
        between = steps.within(range(after + 1, before))
        loss = steps.head(between[-1]).loss if between else None
        return loss is not None and math.isfinite(loss)

    return calm


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
