"""The loop itself is slow."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, milliseconds, percent
from tensight.records import Evidence

SHARE = 0.2
FEWEST = 10


class PythonInStep(AdviceRule):
    fault = "python_in_step"
    symptom = "A line between the passes takes a good part of every step."
    measure = "Samples of the running line outside loader, model, backward and optimizer."
    threshold = "20 % of the time outside, one line in 15 % of all samples."
    advice = "Do it every so many steps, in tensors instead of Python, or in another process."

    def look(self, reading: Reading) -> Advice | None:
        line = reading.hottest("rest")
        rest = reading.share("rest")
        if line is None or rest < SHARE or line.share < 0.15 or line.samples < FEWEST:
            return None
        code = line.source.code
        saving = "save(" in code
        fix = "save a checkpoint every so many steps, not in each" if saving else "do it every so many steps only"
        return Advice(
            self.fault,
            f"one line of the loop takes {percent(line.share)} of the time",
            f"it runs outside of loader, model, backward and optimizer: {milliseconds(reading.split['rest'])} a step",
            line.share,
            line.source,
            evidence=(
                Evidence("samples on this line", line.samples),
                Evidence("share", round(line.share, 3)),
                Evidence("share of the step outside all parts", round(rest, 3)),
            ),
            fix=(fix, "work on whole tensors instead of elements, or hand it to another process"),
            confidence=0.85,
        )
