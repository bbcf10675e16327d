"""The training computes in double precision."""

from __future__ import annotations

from tensight.profiling.reading import Reading
from tensight.profiling.rule import Advice, AdviceRule, percent
from tensight.records import Evidence

SHARE = 0.3
COUNT = 5


class AccidentalFloat64(AdviceRule):
    fault = "accidental_float64"
    symptom = "Operators compute in float64."
    measure = "Operators with float64 tensors among those with floating-point tensors, in the located steps."
    threshold = "30 % of them and five a step."
    advice = "NumPy makes float64: cast once to float32, and take the line out that asks for it."
    explains = ("cast_ping_pong",)

    def look(self, reading: Reading) -> Advice | None:
        double, single = reading.number("double_calls"), reading.number("float_calls")
        share = double / (double + single) if double else 0.0
        if share < SHARE or double / reading.located_steps < COUNT:
            return None
        rows = reading.profile.doubles
        asking = next((row for row in rows if row.what == "asked for"), None)
        place = asking or max(rows, key=lambda row: row.calls)
        return Advice(
            self.fault,
            f"{percent(share)} of the operators compute in float64",
            "float64 takes twice the memory and at least twice the time of float32, and training hardly ever needs it",
            0.4 * share,
            place.source,
            module=place.module or None,
            evidence=(
                Evidence("operators with float64 a step", round(double / reading.located_steps, 1)),
                Evidence("parameters in float64", int(reading.number("double_parameters"))),
            ),
            fix=(
                "make inputs float32 (`torch.from_numpy(x).float()`) and the model too (`model.float()`)",
                "leave torch.set_default_dtype at float32",
            ),
        )
