"""A debugging switch was left on."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule
from tensight.records import Evidence, Source


class AnomalyMode(AdviceRule):
    fault = "debug_switch_left_on"
    symptom = "Anomaly detection or synchronous launches are on."
    measure = "The switches themselves, and the line that sets one."
    threshold = "On."
    advice = "Switch it off; `tensight run` finds the operator of a NaN without it."
    frameworks = ("torch",)

    def look(self, reading: Reading) -> Advice | None:
        anomaly, blocking = bool(reading.fact("anomaly")), bool(reading.fact("blocking")) and reading.accelerator
        if not anomaly and not blocking:
            return None
        file, line = reading.fact("anomaly.file"), reading.number("anomaly.line")
        source = Source(str(file), int(line), str(reading.fact("anomaly.code") or "")) if file and line else None
        name = "anomaly detection" if anomaly else "CUDA_LAUNCH_BLOCKING"
        return Advice(
            self.fault,
            f"{name} is on",
            "it records a stack for every operator and looks at every gradient"
            if anomaly
            else "every kernel is waited for before the next is launched",
            0.3,
            source if anomaly else None,
            evidence=(Evidence(name, "on"),),
            fix=(f"switch {name} off in training",),
            confidence=0.98,
        )
