"""Tensors are cast back and forth."""

from __future__ import annotations

import re

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, percent
from tensight.records import Evidence
from tensight.records.timing import Calls

EXPLICIT = re.compile(r"\.(to|half|float|bfloat16|double|type|type_as)\(")
COUNT = 4
SHARE = 0.05


class CastPingPong(AdviceRule):
    fault = "cast_ping_pong"
    symptom = "Values go to another dtype and back again."
    measure = "Casts from lines that ask for them, in both directions, in the located steps."
    threshold = "Four a step, or 5 % of the operators' time; casts of autocast do not count."
    advice = "Cast once where values enter, or leave it to autocast."

    def look(self, reading: Reading) -> Advice | None:
        asked = [
            call for call in reading.profile.casts if call.source is not None and EXPLICIT.search(call.source.code)
        ]
        directions = {call.detail for call in asked}
        both = [call for call in asked if _back(call.detail) in directions]
        if not both:
            return None
        count, share = reading.per_step(both), reading.operator_share(both)
        if count < COUNT and share < SHARE:
            return None
        forward = [call for call in both if call.part != "backward"] or both
        worst = max(forward, key=lambda call: _weight(call, both))
        return Advice(
            self.fault,
            f"{count:.0f} casts a step, back and forth",
            f"values go {' and '.join(sorted({call.detail for call in both}))}: {percent(share)} of operators' time",
            max(share, reading.line_share(worst.source), 0.05),
            worst.source,
            module=worst.module or None,
            op="aten._to_copy",
            evidence=(
                Evidence("casts a step", round(count, 1)),
                Evidence("share of the operators' time", round(share, 3)),
            ),
            fix=(
                "cast once, where the values enter, and keep them so",
                "or drop the casts and let torch.autocast choose each operator's dtype",
            ),
        )


def _back(detail: str) -> str:
    """
    >>> _back("float32 → bfloat16")
    'bfloat16 → float32'
    """
    first, _, second = detail.partition(" → ")
    return f"{second} → {first}"


def _weight(call: Calls, all_calls: list[Calls]) -> float:
    return sum(other.seconds for other in all_calls if other.source == call.source)
