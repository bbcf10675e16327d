"""Functions are compiled again and again."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, milliseconds
from tensight.records import Evidence

LATE = 1
COUNT = 3


class RecompilationStorm(AdviceRule):
    fault = "recompilation_storm"
    symptom = "torch.compile compiles the same function again."
    measure = "Compilations of one function, and those after the warm-up, with the reason torch.compile gives."
    threshold = "One after the warm-up, or three of one function."
    advice = "Pad or bucket what varies, mark dimensions dynamic, pass Python numbers as tensors."
    explains = ("data_jitter", "graph_breaks", "python_in_step")

    def look(self, reading: Reading) -> Advice | None:
        found = [one for one in reading.profile.compiling.recompiles if one.late >= LATE or one.count >= COUNT]
        if not found:
            return None
        worst = max(found, key=lambda one: (one.late, one.count))
        late = sum(one.seconds * one.late / one.count for one in found)
        whole = sum(time.seconds for time in reading.clocked)
        gain = min(0.95, max(0.1, late / whole if whole else 0.0))
        reason = worst.reason.rstrip(".")
        return Advice(
            self.fault,
            f"{worst.function} was compiled again {worst.count} times",
            f"torch.compile says: {reason}"
            if reason
            else "its inputs change in a way the compiled code does not cover",
            gain,
            worst.source,
            evidence=(
                Evidence("compiled again", worst.count),
                Evidence("of them after the warm-up", worst.late),
                Evidence("time of compiling", milliseconds(reading.profile.compiling.seconds)),
                *([Evidence("compiled by line", worst.asked.line)] if worst.asked is not None else []),
            ),
            fix=(
                "pad to a few sizes, or torch._dynamo.mark_dynamic(x, 0) / torch.compile(..., dynamic=True)",
                "a Python number that changes with every step is a constant to the compiler: pass it as a tensor",
            ),
            confidence=0.97,
        )
