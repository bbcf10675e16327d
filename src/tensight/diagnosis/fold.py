"""Consequences into their cause."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tensight.diagnosis.rule import Rule
from tensight.records import Finding

Said = tuple[Rule, Finding]

SURE = 0.8  # from here on a cause explains symptoms that its rule does not name
SLACK = 1  # a consequence may be seen one step before its cause is: measured at the other end of a step


def explains(cause: Said, other: Said) -> bool:
    """Whether the second is a consequence of the first."""
    rule, finding = cause
    other_rule, consequence = other
    if finding.key == consequence.key or finding.since_step > consequence.since_step + SLACK:
        return False
    if consequence.fault in rule.explains:
        return True
    return other_rule.symptom and not rule.symptom and finding.confidence >= SURE


def fold(said: Sequence[Said]) -> list[Finding]:
    """One list: causes only, the most certain first, each with what it spoilt afterwards in `then`."""
    best: dict[str, Said] = {}
    for one in said:
        held = best.get(one[1].key)
        if held is None or one[1].confidence > held[1].confidence:
            best[one[1].key] = one
    ordered = sorted(best.values(), key=lambda one: (-one[1].confidence, one[1].since_step, one[1].key))
    cause_of: dict[str, str] = {}
    for other in ordered:
        for one in ordered:
            if explains(one, other) and _root(one[1].key, cause_of) != other[1].key:
                if explains(other, one) and _later(one, other):
                    continue
                cause_of[other[1].key] = one[1].key
                break
    spoilt: dict[str, list[Finding]] = {}
    for key in cause_of:
        spoilt.setdefault(_root(key, cause_of), []).append(best[key][1])
    return [_with(finding, spoilt.get(finding.key, [])) for _, finding in ordered if finding.key not in cause_of]


def _root(key: str, cause_of: dict[str, str]) -> str:
    while key in cause_of:
        key = cause_of[key]
    return key


def _later(one: Said, other: Said) -> bool:
    """Of two that explain each other, the later (or less certain) one gives way."""
    return (one[1].since_step, -one[1].confidence, one[1].key) > (
        other[1].since_step,
        -other[1].confidence,
        other[1].key,
    )


def _with(finding: Finding, consequences: Sequence[Finding]) -> Finding:
    if not consequences:
        return finding
    lines = tuple(
        f"{consequence.title} (step {consequence.since_step})"
        for consequence in sorted(consequences, key=lambda one: one.since_step)
    )
    return msgspec.structs.replace(finding, then=finding.then + lines)
