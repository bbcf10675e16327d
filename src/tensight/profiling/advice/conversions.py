"""Operators that only convert: MindSpore's Cast and TransData."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, percent
from tensight.records import Evidence

CONVERTING = ("Cast", "TransData")
SHARE = 0.1


class Conversions(AdviceRule):
    fault = "conversion_operators"
    symptom = "Much time goes into changing dtypes and layouts."
    measure = "Time of Cast and TransData in the table of MindSpore's profiler."
    threshold = "10 % of all operators' time."
    advice = "Take out Casts that were added by hand and are not needed; keep one dtype and layout from layer to layer."
    frameworks = ("mindspore",)

    def look(self, reading: Reading) -> Advice | None:
        whole = reading.number("operator_seconds")
        found = [one for one in reading.profile.operators if one.name in CONVERTING]
        share = sum(one.seconds for one in found) / whole if whole else 0.0
        if share < SHARE:
            return None
        worst = max(found, key=lambda one: one.seconds)
        steps = max(1.0, reading.number("traced_steps"))
        return Advice(
            self.fault,
            f"converting takes {percent(share)} of the operators' time",
            f"{worst.name} computes nothing; the one that takes longest is {worst.shapes or worst.name}",
            share,
            op=worst.name,
            evidence=tuple(
                Evidence(f"{one.name} {one.shapes} a step", round(one.calls / steps, 1)) for one in found[:5]
            ),
            fix=(
                "delete Cast operators that the result does not need",
                "where MindSpore adds them itself, give neighbouring layers one dtype and one layout",
            ),
            confidence=0.8,
        )
