"""The optimizer goes from parameter to parameter."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, percent
from tensight.records import Evidence, Source

SHARE = 0.35
OPERATORS = 4
TENSORS = 20


class OptimizerLoop(AdviceRule):
    fault = "optimizer_loop"
    symptom = "The update takes a large part of the step, in many small operators."
    measure = "Share of the update, operators in it for each parameter."
    threshold = "35 % of a step, four operators for each of at least 20 parameters."
    advice = "fused=True, or foreach=True."
    frameworks = ("torch",)

    def look(self, reading: Reading) -> Advice | None:
        share, tensors = reading.typical("update"), reading.number("parameter_tensors")
        each = reading.number("update_operators") / reading.located_steps / tensors if tensors else 0.0
        if share < SHARE or tensors < TENSORS or each < OPERATORS:
            return None
        file, line = reading.fact("optimizer.file"), reading.number("optimizer.line")
        source = Source(str(file), int(line), str(reading.fact("optimizer.code") or "")) if file and line else None
        return Advice(
            self.fault,
            f"the optimizer takes {percent(share)} of a step",
            f"it runs {each:.0f} operators for each of {tensors:.0f} parameters, one after the other",
            0.6 * share,
            source,
            evidence=(Evidence("share of the median step", round(share, 3)), Evidence("parameters", int(tensors))),
            fix=("give the optimizer fused=True (SGD, Adam, AdamW); foreach=True where that is not offered",),
            tries=("fused",),
            confidence=0.8,
        )
